//! Instruction fetch of a machine file.

use super::geometry::{Misfit, Sets, check_cache, check_ways};
use super::key::MAX_WAYS;
use super::section::{Resolver, Table, section};
use super::settings::TierSpec;
use super::tlb::{self, ARRAYS, TlbArraySpec, TlbLevelSpec};

/// The fetch of instructions by a core.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchSpec {
    /// The first cache for instructions (timed runs).
    pub cache: InstructionCacheSpec,
    /// Lines that the front end may be ahead of the instructions that it hands on (timed runs).
    pub ahead: u32,
    /// The array of the first TLB level for instructions.
    pub tlb: TlbArraySpec,
    /// The cache of decoded instructions; none if all are decoded as fast as they are fetched (timed runs).
    pub decoded: Option<DecodedSpec>,
}

section! {
    /// The cache of decoded instructions.
    pub struct DecodedSpec {
        instructions: u32 = "instructions" integer(8, 1_048_576) or "4096", "instructions that it holds; instructions / (line * ways) is a power of two";
        line: u32 = "line" integer(1, 64) or "8", "instructions of a line, which stands for 32 bytes of code";
        ways: u32 = "ways" integer(1, MAX_WAYS) or "8", "ways of a set";
        width: u32 = "width" integer(1, 64) or "4", "instructions that the decoders take per cycle, where it does not hold them";
        bytes: u32 = "bytes" integer(1, 1_024) or "16", "bytes that the decoders take per cycle";
    }
}

section! {
    /// The first cache for instructions.
    pub struct InstructionCacheSpec {
        bytes: u64 = "size" bytes(64, 1 << 30) or "\"32KiB\"", "capacity; size / (64 B * ways) is a whole number of sets";
        ways: u32 = "ways" integer(1, MAX_WAYS) or "8", "ways of a set";
    }
}

section! {
    /// Instruction fetch.
    pub(super) fn fetch(table, resolver, levels: Option<&[TlbLevelSpec]>, tier: Option<&TierSpec>) -> FetchSpec;
    pub(super) const FETCH {
        cache = "cache" always(InstructionCacheSpec::KEYS), "the first cache for instructions, each core's own; a miss goes to the second level of [caches] (timed runs)";
        ahead = "ahead" integer(1, 1_024) or "8", "lines of 64 bytes that the front end may be ahead of the instructions that it hands on: so much of a miss is hidden (timed runs)";
        decoded = "decoded" part(DecodedSpec), "the cache of decoded instructions; without it, all are decoded as fast as `core.dataflow.fetch-width` says (timed runs)";
        tlb = "tlb" any_of(&[], &ARRAYS), "the first TLB level for instructions, of all page sizes; a miss goes to the second level of [tlb]";
    }
    {
        let cache = instruction_cache(cache?, resolver);
        check_decoded(table, resolver);
        let Some(own) = tlb? else {
            let help = "add [fetch.tlb.set-associative], or write fetch = \"none\"";
            return resolver.refuse_section(table, "instruction fetch without a TLB", help);
        };
        let tlb = tlb::whole_array("fetch.tlb", own, resolver);
        let levels = levels?;
        if levels.is_empty() {
            let help = "give the machine a first TLB level, or write fetch = \"none\"";
            return resolver.refuse_section(table, "instruction fetch, but no TLB level", help);
        }
        if levels.iter().any(TlbLevelSpec::is_exclusive) {
            let message = "instruction fetch above an exclusive TLB level: a page may be in two arrays above it";
            return resolver.refuse_section(table, message, "write inclusion = \"neither\" there, or fetch = \"none\"");
        }
        if tier.is_some() {
            let message = "instruction fetch, but memory is a cache over flash, in which instructions are not looked for";
            return resolver.refuse_section(table, message, "write fetch = \"none\"");
        }
        Some(FetchSpec { cache: cache?, ahead: ahead?, tlb: tlb?, decoded: decoded? })
    }
}

fn check_decoded(fetch: &Table, resolver: &mut Resolver<'_>) -> Option<()> {
    let table = fetch.section("decoded")??;
    let (instructions, line) = (table.integer("instructions")?, table.integer("line")?);
    if !instructions.is_multiple_of(line) {
        let message =
            format!("fetch.decoded: {instructions} instructions do not divide into lines of {line}");
        return resolver.refuse(message, "write a multiple", table, &["instructions", "line"]);
    }
    let (lines, ways) = (instructions / line, table.integer("ways")?);
    if let Err(Misfit { message, help }) = check_ways(lines.into(), ways.into(), Sets::PowerOfTwo) {
        let message = format!("fetch.decoded, in lines of {line} instructions: {message}");
        return resolver.refuse(message, help, table, &["instructions", "line", "ways"]);
    }
    Some(())
}

fn instruction_cache(table: &Table, resolver: &mut Resolver<'_>) -> Option<InstructionCacheSpec> {
    if let Err(Misfit { message, help }) = check_cache(table.bytes("size")?, table.integer("ways")?.into()) {
        return resolver.refuse(format!("cache `fetch.cache`: {message}"), help, table, &["size", "ways"]);
    }
    InstructionCacheSpec::resolve(table, resolver)
}
