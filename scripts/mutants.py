#!/usr/bin/env python3
"""Plants known defects of persistent-memory file systems, one at a time, and says which the tests catch.

The first are the defects that reading the public code of ctFS (commit 664a8b7) shows, the others classes that crash tests
found in similar file systems (LeBlanc et al., "Chipmunk", EuroSys 2023), and what could be wrong in this log alone. Not here are
those for which nothing in this code could go wrong in that way: addresses of a process in the log, a buffer of entries that
overflows, the process page table's loops, locks between processes, and a lock of another file that truncating by a path unlocks
(what locked here unlocks, at the end of its scope). Nor is an openat() that answers 0: only the preloaded library answers
descriptors, and its tests need a mount; here the library's door stands for it.

The tree is copied to TARGET/mutants, and stays as it is. A mutant whose text is not there any more, once, does not apply:
write it anew. Exits with 1 unless all are caught.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

VM, CTFS = "pagewalk-vm", "pagewalk-ctfs"
STORE, JOURNAL = "crates/vm/src/file/store.rs", "crates/vm/src/file/journal.rs"
TRANSACTION = "crates/vm/src/file/store/transaction.rs"
MAPPING, PARTITION = "crates/vm/src/file/mapping.rs", "crates/vm/src/file/partition.rs"
SHIFT = "crates/vm/src/file/shift.rs"
VM_REPAIR = "crates/vm/src/file/repair.rs"
CORE = "crates/ctfs/src/core/"
SYSTEM, FILE, REPAIR_PARTITIONS, NAMES, BYTES, MOUNT, USERS, ATTRIBUTES, FRAMES, RECLAIM, RENAME = (
    f"{CORE}{name}.rs"
    for name in ("system", "file", "repair/partitions", "names", "bytes", "mount", "users", "attributes", "frames", "reclaim", "rename")
)
PATHS = "crates/ctfs/src/client/paths/files.rs"
PATH, OPEN_FILE = "crates/ctfs/src/client/paths/path.rs", "crates/ctfs/src/client/paths/file.rs"
GATE, TRANSLATIONS = "crates/ctfs/src/memory/gate.rs", "crates/ctfs/src/memory/translations.rs"
VOLUME, TURNS = "crates/ctfs/src/core/volume.rs", "crates/ctfs/src/memory/turns.rs"
VIEW, CHECKPOINT = "crates/ctfs/src/memory/view.rs", "crates/vm/src/file/checkpoint.rs"
BUILD_SECONDS, TEST_SECONDS = 600, 200

# Name, file, texts and what replaces them, package, tests of which one must fail: unit tests, or FILE/TESTS for those of tests/FILE.rs.
MUTANTS = [
    ("a changed page has no image", CHECKPOINT,
     [("!state.is_fresh(**page) && !state.saved.contains(page);", "**page == u64::MAX;")],
     CTFS, "synced::"),
    ("words of inodes have no image", BYTES,
     [("checkpoints.before_change(self.memory, std::iter::once(self.inode / PAGE_BYTES));", "let _ = checkpoints;")],
     CTFS, "synced::"),
    ("frames that were given back are free at once", TRANSACTION,
     [("memory.checkpoints().filter(|checkpoints| checkpoints.is_running())", "memory.checkpoints().filter(|_| false)")],
     CTFS, "synced::"),
    ("a checkpoint counts before what lies in its place", CHECKPOINT,
     [(".persist(0, running.area.first * PAGE_BYTES)", ".persist(0, 0)")], CTFS, "synced::"),
    ("a checkpoint has no images", CHECKPOINT,
     [("state.saved = pages.into_iter().collect();", "state.saved = pages.into_iter().collect();\n        let images = Vec::new();")],
     CTFS, "synced::"),
    ("a half-written checkpoint counts", CHECKPOINT, [("if sum.digest() != checksum {", "if false {")],
     CTFS, "synced::"),
    ("what was committed behind a checkpoint is applied to it", CHECKPOINT,
     [("        memory.zero(log, HEAD_BYTES);\n", "        let _ = log;\n")], CTFS, "synced::"),
    ("images of an ended checkpoint are put back", CHECKPOINT,
     [("memory.store(at, ENDED);", "let _ = at;")], CTFS, "synced::"),
    ("the end of a process is a power failure", CHECKPOINT,
     [("checkpoint.identity != 0 && checkpoint.identity == memory.identity()", "false")], CTFS, "synced::"),
    ("images saved before changes are not put back", CHECKPOINT,
     [("images = read_images(memory, area, half, page);", "images = None;")], CTFS, "synced::"),
    ("a full store does not wait for its frames", TRANSACTION,
     [("self.store.waiting.is_empty() || self.store.checkpoint().is_err()", "true")], CTFS, "synced::"),
    ("frames of a mapped file go", RECLAIM,
     [("if self.is_pinned(ino) || self.is_read_only() {\n            return", "if self.is_read_only() {\n            return")],
     CTFS, "frames_of_a_mapped"),
    ("a store that is only read commits", TRANSACTION,
     [("if self.store.memory.is_read_only() {", "if false {")], CTFS, "read_only/every_change_is_refused"),
    ("a store that is only read is written in place", BYTES,
     [("if self.memory.is_read_only() {", "if false {")], CTFS, "read_only/every_change_is_refused"),
    ("a store grows before its new bitmap persists", STORE,
     [("    memory.flush(place(new, 0), bytes);\n    memory.fence();\n    memory.persist(place(new, 0), bytes)", "    let _ = bytes;\n    Ok(())")],
     VM, "grow::"),
    ("the old bitmap of a store that grows stays", STORE,
     [(" & known & !bits(bitmap_of(old))", " & known")], VM, "grow::"),
    ("a store that grows keeps images of checkpoints", STORE,
     [("        checkpoint::erase(&memory, old.frames).map_err(on_disk)?;\n", "")], VM, "grow::"),
    ("bytes cut off a mapped file stay", FILE,
     [("if bytes < size && self.is_pinned(ino) {", "if false {")], CTFS, "frames_of_a_mapped"),
    ("a mapping shows what lies behind the end", USERS,
     [("bytes::zero(self.store.memory(), partition, size..size.next_multiple_of(PAGE_BYTES));", "let _ = size;")],
     CTFS, "frames_of_a_mapped"),
    ("a hole in a mapped file takes its frames", FILE,
     [("let last = if self.is_pinned(ino) {", "let last = if false {")], CTFS, "frames_of_a_mapped"),
    ("the owner lets no client pass a barrier", GATE, [("if !barrier::pass() {", "if false {")],
     CTFS, "gate::tests::no_client_is_inside_without"),
    ("closings are not counted", GATE, [("words.closings.fetch_add(1, Ordering::Relaxed);", "")],
     CTFS, "gate::tests::no_client_is_inside_while"),
    ("translations outlive what they say", TRANSLATIONS,
     [("entry.since.load(Ordering::Relaxed) == self.now.load(Ordering::Relaxed)", "true")],
     CTFS, "translations::tests"),
    ("what lies ahead is a file's", VIEW,
     [("state.load(Ordering::Relaxed) != ahead", "!is_ahead(state.load(Ordering::Relaxed))")],
     CTFS, "tests::view::"),
    ("what is mapped stays known", VIEW, [("window.state(chunk).store(UNKNOWN, Ordering::Release);", "")],
     CTFS, "tests::view::"),
    ("no recovery", STORE, [("journal.recover(memory)", "Recovered::Nothing")], CTFS, "crashes::names"),
    ("log never written", JOURNAL, [("memory.store(self.at + offset, word);", "let _ = (offset, word);")],
     CTFS, "crashes::names"),
    ("flag not written", MAPPING, [("transaction.set(flag, 1);", "let _ = flag;")], VM, "file::tests::a_swap"),
    ("no fence before the log", JOURNAL, [("} else {\n            memory.fence();\n        }", "}")],
     VM, "file::tests::what_was_flushed"),
    ("no fence behind the log", JOURNAL,
     [("HEAD_BYTES + bytes);\n        memory.fence();", "HEAD_BYTES + bytes);")], CTFS, "crashes::names"),
    ("log's runs not flushed", JOURNAL,
     [("memory.flush(self.at, HEAD_BYTES + bytes);", "memory.flush(self.at, HEAD_BYTES);")], CTFS, "crashes::names"),
    ("log's end not flushed", JOURNAL, [("memory.flush(self.at + 8, 16);", "")], CTFS, "crashes::"),
    ("a log's checksum outlives its commit", JOURNAL, [("memory.store(self.at + 16, 0);", "")], VM, "file::journal::tests::a_commit"),
    ("a part of a log is left in the head", JOURNAL,
     [("recovered == Recovered::Nothing && !is_clear", "false")], VM, "file::journal::tests::a_part"),
    ("applied runs not flushed", JOURNAL, [("memory.flush(at, bytes.len() as u64);", "")], CTFS, "crashes::"),
    ("last line of an applied run not flushed", JOURNAL,
     [("memory.flush(at, bytes.len() as u64);", "memory.flush(at & !63, bytes.len() as u64 & !63);")], CTFS, "crashes::"),
    ("log's checksum not looked at", JOURNAL, [("checksum_of(sequence, &changes) != checksum", "false")],
     CTFS, "crashes::names"),
    ("log's checksum without the bytes", JOURNAL, [("xxh3_64(changes)", "xxh3_64(&changes[..8])")],
     VM, "file::tests::bytes_change"),
    ("log's checksum without the sequence", JOURNAL,
     [("xxh64_of_word(changes.len() as u64, sequence)", "xxh64_of_word(changes.len() as u64, sequence & 0)")],
     VM, "file::journal::tests::every_bit"),
    ("runs beyond the memory applied", JOURNAL,
     [("\n            && places.last().is_some_and(|last| last.1 <= memory.bytes())", "")],
     VM, "file::journal::tests::a_log_that"),
    ("runs that meet applied", JOURNAL, [("places.is_sorted_by(|before, behind| before.1 <= behind.0)", "true")],
     VM, "file::journal::tests::a_log_that"),
    ("words over bytes of the same transaction", TRANSACTION,
     [("if let Some(place) = self.place_in_runs(at) {\n            self.runs.set_word(place, word);\n        } else if",
       "if")], VM, "file::tests::bytes_and_words"),
    ("second range of a swap not logged", MAPPING,
     [("self.set(at_b.0, of_a);", "self.memory().store(at_b.0, of_a);")], VM, "file::tests::a_swap"),
    ("frames never freed", MAPPING, [("self.give_frames(frame, pages);", "let _ = (frame, pages);")],
     CTFS, "tests::space"),
    ("fresh frames not zeroed", FRAMES, [("transaction.memory().zero(at, range.end - range.start);", "")],
     CTFS, "tests::what_was_never"),
    ("growth over old bytes not zeroed", FILE, [("bytes::zero(self.store.memory(), partition, size..bytes);", "")],
     CTFS, "tests::what_was_never"),
    ("hole before a write not zeroed", BYTES, [("zero(self.memory, partition, size..offset);", "")],
     CTFS, "tests::what_was_never"),
    ("every partition at least L3", PARTITION, [("(0..=9).map(Self)", "(3..=9).map(Self)")],
     VM, "file::tests::the_smallest"),
    ("what is free not updated below L3", PARTITION,
     [("if has_cut || self.free_slot(at, wanted)?.is_none() {", "if has_cut {")], VM, "file::tests::partitions"),
    ("what is free not updated by a free of the only free slot", PARTITION,
     [("if had_room && !self.is_unused(Level::L3, around)? {", "if !self.is_unused(Level::L3, around)? {")],
     VM, "file::tests::partitions"),
    ("a partition whose last slot is free stays cut", PARTITION,
     [("if had_room && !self.is_unused(Level::L3, around)? {", "if had_room {")], VM, "file::tests::partitions"),
    ("a cached translation outlives its mapping", TRANSACTION, [("            translations.forget(change);\n", "")],
     VM, "file::tests::cached"),
    ("a transaction takes cached translations of pages that it has remapped", TRANSACTION,
     [("if self.remapped.iter().any(|&change| concerns(change, page)) {", "if false {")], VM, "file::tests::cached"),
    ("what is free not updated by a free", PARTITION, [("self.refresh(first, changed)\n", "Ok(())\n")],
     VM, "file::tests::partitions"),
    ("headers by level instead of by 9 - level", PARTITION,
     [("{ u64::from(9 - level.0) * HEADER_BYTES }", "{ u64::from(level.0) * HEADER_BYTES }")],
     VM, "file::tests::"),
    ("8 bits for 512 slots", PARTITION,
     [("Some(64 * at + u64::from(free.trailing_zeros()))", "Some((64 * at + u64::from(free.trailing_zeros())) & 0xff)")],
     VM, "file::tests::a_small"),
    ("header's slot handed out", PARTITION,
     [("self.set(page + SMALL_HEADER + 8, 1);", "self.set(page + SMALL_HEADER + 8, 0);")], VM, "file::tests::a_small"),
    ("only one L9", PARTITION,
     [("(1..LARGEST).find(|&number| self.largest(number) == EMPTY)", "(1..2).find(|&number| self.largest(number) == EMPTY)")],
     VM, "file::tests::large"),
    ("no L9 for one file", PARTITION, [("if level == Level::L9 {\n            self.set_largest(number, ALLOCATED);",
                                        "if false {\n            self.set_largest(number, ALLOCATED);")],
     VM, "file::tests::large"),
    ("no error without partitions", PARTITION, [(".ok_or(StoreError::NoPartition)?", '.expect("room")')],
     VM, "file::tests::large"),
    ("no error without frames", TRANSACTION, [(".map_err(|_| StoreError::NoFrames)?", '.expect("room")')],
     CTFS, "synced::frames_that_come_back"),
    ("no small pages where frames are scattered", FRAMES,
     [("small pages do.\n                    Err(StoreError::NoFrames) => {}",
       "small pages do.\n                    Err(StoreError::NoFrames) => return Err(StoreError::NoFrames),")],
     CTFS, "tests::scattered"),
    ("rename takes the old name away first", RENAME,
     [("let mut is_last = false;",
       "directory::set_free(&mut transaction, from, entry.slot, entry.slots)?;\n"
       "        transaction.commit().map_err(of_store)?;\n"
       "        let mut transaction = self.store.begin();\n        let mut is_last = false;")], CTFS, "crashes::names"),
    ("rename frees the old slot in place", RENAME,
     [("return directory::set_free(transaction, partition, entry.slot, entry.slots);",
       "let at = transaction.find(partition.first).ok_or(Errno::IO)?.frame.addr().0 + entry.slot * directory::SLOT_BYTES;\n"
       "        transaction.memory().store(at, 0); transaction.memory().flush(at, 8); return Ok(());")],
     CTFS, "crashes::names"),
    ("a large page is cut without its remainder's frames", MAPPING, [("self.give_frames(frame.add(kept), given - kept);", "")],
     CTFS, "slack"),
    ("a table that moved is freed", SHIFT, [("self.set(at.0, 0);", "")], CTFS, "tests::shift::random_shifts"),
    ("no look for circles", RENAME, [("if is_directory && self.is_within(new_parent", "if false && self.is_within(new_parent")],
     CTFS, "tests::renames"),
    ("link does nothing", NAMES,
     [("self.check_new(parent, name)?;\n        self.link_new(ino, parent, name)", "self.check_new(parent, name).map(|_| ())")],
     CTFS, "tests::renames"),
    ("unlink frees what is open", NAMES,
     [("if self.users.contains_key(&ino) { Ok(()) } else { self.reclaim(ino) }", "self.reclaim(ino)")],
     CTFS, "tests::a_file_without"),
    ("removal leaks the partition", RECLAIM,
     [("[(Field::Size, 0)])?;\n                self.shrink(ino)?;", "[(Field::Size, 0)])?;")], CTFS, "tests::space"),
    ("old place of a directory that grew", NAMES,
     [("let partition = self.inode(parent)?.partition().ok_or(Errno::IO)?;\n        let ino =",
       "let now_at = self.inode(parent)?.partition();\n"
       "        let partition = above.partition().or(now_at).ok_or(Errno::IO)?;\n        let ino =")],
     CTFS, "tests::listings"),
    ("size before the bytes", BYTES,
     [("if !put(self.memory, partition, offset, data, offset == size) {",
       "self.store([(Field::Size, end.max(size))]);\n        if !put(self.memory, partition, offset, data, offset == size) {")],
     CTFS, "crashes::a_crash_shows_no_byte"),
    ("no fence between bytes and size", BYTES, [("self.memory.fence();\n        // The size must not say", "// The size must not say")],
     CTFS, "crashes::an_append"),
    ("bytes not flushed", BYTES, [("memory.flush(at, part.len() as u64);", "")], CTFS, "crashes::a_crash_shows_no_byte"),
    ("flush ends before the last bytes", BYTES,
     [("memory.flush(at, part.len() as u64);", "memory.flush(at & !63, part.len() as u64 & !63);")],
     CTFS, "crashes::a_crash_shows_no_byte"),
    ("swap looks at one alignment", MAPPING,
     [("a.0.is_multiple_of(reach) && b.0.is_multiple_of(reach) &&", "let _ = b;\n        a.0.is_multiple_of(reach) &&")],
     VM, "file::tests::swap"),
    ("swap of 64 pages at most", MAPPING, [("while done < pages {", "while done < pages.min(64) {")], VM, "file::tests::swap"),
    ("swap does not advance over 2 MiB", MAPPING,
     [("done += Persistent::leaf_pages(level);", "done += if level == 1 { 1 } else { Persistent::leaf_pages(level) };")],
     VM, "file::tests::swap"),
    ("links changed beside the log", NAMES,
     [("transaction.set_field(ino, Field::Links, inode.links() + 1)?;",
       "{ let at = transaction.inode_address(ino)? + 8 * Field::Links as u64;\n"
       "        transaction.memory().store(at, inode.links() + 1); transaction.memory().flush(at, 8); }")],
     CTFS, "crashes::names"),
    ("a logged write leaves the slack of other files", VOLUME,
     [("|system| Ok(self.gate.is_none() && system.reclaim_slack()?)", "|_| Ok(false)")], CTFS, "space::a_logged_write_gets"),
    ("strict writes in place", FILE,
     [("Ok(self.overwrites == Overwrites::Whole && offset", "Ok(false && offset")],
     CTFS, "crashes::strict"),
    ("files without a name go before the scan", MOUNT,
     [("if let Some(problem) = problem {",
       "while let orphan @ Ino(1..) = Ino(system.store.root_word(root::ORPHANS)) {\n"
       "            let _ = system.reclaim(orphan);\n        }\n"
       "        if let Some(problem) = crate::check::check(&system).into_iter().next() {")], CTFS, "tests::repair::a_damaged"),
    ("symlink keeps no target", NAMES, [("self.write_bytes(ino, 0, target);", "Ok::<_, Errno>(target.len());")],
     CTFS, "tests::names"),
    ("chmod does nothing", ATTRIBUTES, [("transaction.set_field(ino, Field::Mode, word)?;", "let _ = word;")],
     CTFS, "paths::tests::what_is_known"),
    ("chown does nothing", ATTRIBUTES, [("(set.uid.unwrap_or(owner as u32), set.gid.unwrap_or((owner >> 32) as u32))",
                                     "(owner as u32, (owner >> 32) as u32)")], CTFS, "paths::tests::what_is_known"),
    ("utimes does nothing", ATTRIBUTES, [("transaction.set_time(ino, field, time)?;", "let _ = (field, time);")],
     CTFS, "paths::tests::what_is_known"),
    ("open finds what is not there", PATH, [("None => return Err(Errno::NOENT),", "None => Ino::ROOT,")],
     CTFS, "paths::tests::paths_lead"),
    ("seek answers 0", OPEN_FILE, [("Ok(*offset)\n", "Ok(0)\n")], CTFS, "paths::tests::what_a_file"),
    ("seek of 32 bits", OPEN_FILE, [("(from, by) = match to {\n            SeekFrom::Start(at) => (at, 0)",
                                 "(from, by) = match to {\n            SeekFrom::Start(at) => (at as i32 as u64, 0)")],
     CTFS, "paths::tests::what_is_known"),
    ("open to truncate does not", PATH, [("if options.truncate && self.inode", "if false && self.inode")],
     CTFS, "paths::tests::what_a_file"),
    ("writes to append go where they like", OPEN_FILE, [("(true, _) => self.files.write(&self.opened, Place::End, data)",
                                                     "(true, _) => self.files.write(&self.opened, place, data)")],
     CTFS, "paths::tests::what_a_file"),
    ("what must be new may be there", PATH, [("Some(_) if options.create_new => return Err(Errno::EXIST),", "")],
     CTFS, "paths::tests::paths_lead"),
    ("permissions of a new file ignored", PATH, [("options.mode & 0o7777", "0o644")], CTFS, "paths::tests::what_is_known"),
    ("no attributes of what is open to write", OPEN_FILE,
     [("self.files.shared().attributes(self.opened.ino())",
       "if !self.options.read {\n            return Err(Errno::BADF);\n        }\n"
       "        self.files.shared().attributes(self.opened.ino())")], CTFS, "paths::tests::what_is_known"),
    ("a table is a page's before it is a table", VM_REPAIR,
     [("repair.tables(Pfn(table), Persistent::LEVELS - 1, Vpn(0));", "")], CTFS, "tests::repair::"),
    ("pages without an owner stay", VM_REPAIR, [("self.unmap_all(from, SPACE_END)?;", "")], CTFS, "tests::repair::"),
    ("the lowest number gets the partition", REPAIR_PARTITIONS, [("let is_known = inode", "let is_known = false && inode")],
     CTFS, "tests::repair::a_partition"),
    ("a sync counts for callers that asked after its beginning", TURNS,
     [("*done = asked;", "let _ = asked;\n        *done = self.asked.load(Ordering::SeqCst);")], CTFS, "turns::"),
    ("a sync of the library does not wait", VOLUME,
     [("checkpoints.checkpoint_then(&memory, None, || drop(system)).map_err(|_| Errno::IO)", "let _ = (memory, checkpoints); Ok(())")],
     CTFS, "synced/what_was_synced"),
    ("a store of the library does not end in order", PATHS,
     [("let _ = self.0.shared().end();", "")], CTFS, "synced/what_was_synced"),
    ("the first name of a directory is right", f"{CORE}repair/tree.rs",
     [("&& self.inode(child)?.get(Field::Parent) == parent.0", "")], CTFS, "tests::repair::every"),
]


def run(command, seconds, environment, folder):
    """The command's status, or None after so many seconds; then nothing of it is left."""
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def planted(mutant, tree):
    """The file's text with the mutant in it."""
    _, name, texts, _, _ = mutant
    text = (tree / name).read_text()
    for old, new in texts:
        if text.count(old) != 1:
            raise ValueError(f"does not apply: {text.count(old)} places")
        text = text.replace(old, new)
    return text


def test_of(package, tests):
    """The command that builds these tests, and what it is told behind `--` to run them."""
    what = ["--lib"]
    if "/" in tests:
        what, tests = ["--test", "integration"], tests.replace("/", "::")
    return ["cargo", "test", "--offline", "--quiet", "--package", package, "--all-features", *what], tests


def outcome(mutant, tree, environment):
    _, name, _, package, tests = mutant
    path, (test, tests) = tree / name, test_of(package, tests)
    try:
        changed = planted(mutant, tree)
    except ValueError as error:
        return str(error)
    original = path.read_text()
    try:
        path.write_text(changed)
        if run([*test, "--no-run"], BUILD_SECONDS, environment, tree) != 0:
            return "does not apply: it cannot be built"
        status = run([*test, "--", tests], TEST_SECONDS, environment, tree)
        return {0: "SURVIVED", None: "caught: it did not end"}.get(status, "caught")
    finally:
        path.write_text(original)


def main():
    what, more = __doc__.split("\n\n", 1)
    parser = argparse.ArgumentParser(description=what, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="names of the mutants; nothing is run")
    parser.add_argument("--check", action="store_true", help="whether every mutant has its place; nothing is run")
    parser.add_argument("target", metavar="TARGET", nargs="?", type=pathlib.Path, help="a folder for the copy and the builds")
    parser.add_argument("words", metavar="WORD", nargs="*", help="only mutants in whose name one of the words is")
    arguments = parser.parse_args()
    if arguments.list:
        print(*(mutant[0] for mutant in MUTANTS), sep="\n")
        return
    source = pathlib.Path(__file__).resolve().parent.parent
    if arguments.check:
        for mutant in MUTANTS:
            try:
                planted(mutant, source)
            except ValueError as error:
                sys.exit(f"{mutant[0]}: {error}")
        return
    if arguments.target is None:
        parser.error("TARGET is missing")
    scratch, words = arguments.target.resolve() / "mutants", arguments.words
    tree = scratch / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    keep_out = shutil.ignore_patterns("target", ".git", "corpus", "artifacts", "pagewalk-out")
    # With their times, so that what did not change is not built again.
    shutil.copytree(source, tree, ignore=keep_out, symlinks=True)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(scratch / "target")}
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant[0] for word in words)]
    # What they share, for as long as it takes: a mutant that cannot be built is told from one that is built slowly.
    for package, tests in sorted({mutant[3:] for mutant in chosen}):
        test, tests = test_of(package, tests)
        there = subprocess.run([*test, "--", "--list", tests], cwd=tree, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        if ": test" not in there.stdout:
            sys.exit(f"no test of {package} is called {tests}")
    failed = 0
    for mutant in chosen:
        begin = time.monotonic()
        what = outcome(mutant, tree, environment)
        failed += not what.startswith("caught")
        print(f"{mutant[0]:45} {what} ({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} caught")
    sys.exit(1 if failed else 0)


main()
