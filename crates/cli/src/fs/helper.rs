//! `mount.fuse.pagewalk` and `mount.pagewalk`: this command by the names by which mount(8) calls those that mount for it.
//!
//! ```text
//! mount.fuse.pagewalk STORE FOLDER [-sfnvrw] [-t TYPE] [-o OPTION[,OPTION]...]
//! ```

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::args::MountArguments;
use crate::exit::{self, Done};
use crate::say::complain;

/// As mount(8) has them: wrong usage, and a mount that failed.
const WRONG_USAGE: u8 = 1;
const FAILED: u8 = 32;

/// Returns whether the command was called by such a name.
pub(crate) fn is_helper(name: Option<&OsStr>) -> bool {
    let name = name.map(std::path::Path::new).and_then(|path| path.file_name());
    name.is_some_and(|name| name == "mount.fuse.pagewalk" || name == "mount.pagewalk")
}

/// Mounts as mount(8) asks, in the background.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let asked = match Asked::of(words) {
        Ok(asked) => asked,
        Err(error) => {
            complain!("error: {error:#}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    if asked.is_fake {
        return ExitCode::SUCCESS;
    }
    match super::mount_file(&asked.arguments) {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(FAILED),
        failed => {
            exit::code(failed);
            ExitCode::from(FAILED)
        }
    }
}

/// The request of mount(8).
#[derive(Debug)]
struct Asked {
    arguments: MountArguments,
    /// Whether everything is to be done but the mount itself.
    is_fake: bool,
}

impl Asked {
    fn of(mut words: impl Iterator<Item = OsString>) -> anyhow::Result<Self> {
        let (mut places, mut options) = (Vec::new(), Vec::<OsString>::new());
        let (mut is_fake, mut is_sloppy) = (false, false);
        while let Some(word) = words.next() {
            match word.to_str() {
                Some("-o") => {
                    let list = words.next().context("-o takes options")?;
                    let list =
                        list.as_bytes().split(|&byte| byte == b',').filter(|option| !option.is_empty());
                    options.extend(list.map(|option| OsStr::from_bytes(option).to_owned()));
                }
                Some("-t") => drop(words.next().context("-t takes a type")?),
                Some("-r") => options.push("ro".into()),
                Some("-w") => options.push("rw".into()),
                Some(flags) if flags.len() > 1 && flags.starts_with('-') => {
                    for flag in flags[1..].chars() {
                        match flag {
                            's' => is_sloppy = true,
                            'f' => is_fake = true,
                            'n' | 'v' => {}
                            _ => anyhow::bail!("unknown flag -{flag}; allowed: -s -f -n -v -r -w -t -o"),
                        }
                    }
                }
                _ => places.push(PathBuf::from(word)),
            }
        }
        let [file, folder] = <[PathBuf; 2]>::try_from(places)
            .map_err(|places| anyhow::anyhow!("a store and a folder, not {} paths", places.len()))?;
        let mut arguments = MountArguments { file, folder, daemon: true, ..MountArguments::default() };
        for option in options {
            let is_known = apply(&option, &mut arguments)?;
            anyhow::ensure!(
                is_known || is_sloppy,
                "unknown option `{}`; allowed: {ALLOWED}",
                option.display()
            );
        }
        let modes = [arguments.read_only, arguments.power_failure, arguments.no_sync, arguments.dax];
        anyhow::ensure!(
            modes.iter().filter(|is_on| **is_on).count() <= 1 && !(arguments.read_only && arguments.strict),
            "of ro, sync, nosync and dax one is possible, and with ro not strict"
        );
        let is_exact = arguments.read_only || arguments.power_failure || arguments.dax || arguments.strict;
        anyhow::ensure!(
            !(arguments.write_back && is_exact),
            "writeback is not possible with ro, sync, dax or strict"
        );
        Ok(Self { arguments, is_fake })
    }
}

const ALLOWED: &str = "ro rw sync async nosync dax strict writeback allow_other nosuid suid nodev dev noexec exec log=FILE; without effect: \
                       defaults auto noauto user nouser users owner group nofail _netdev (no)atime (no)diratime (no)relatime \
                       x-* X-* comment=";

/// Applies an option; whether there is such a one. Of those that contradict each other the last one counts.
fn apply(option: &OsStr, to: &mut MountArguments) -> anyhow::Result<bool> {
    let option = option.as_bytes();
    match option {
        b"ro" => to.read_only = true,
        b"rw" => to.read_only = false,
        b"sync" => to.power_failure = true,
        b"async" => to.power_failure = false,
        b"nosync" => to.no_sync = true,
        b"dax" => to.dax = true,
        b"strict" => to.strict = true,
        b"writeback" => to.write_back = true,
        b"allow_other" => to.allow_other = true,
        b"nosuid" => to.no_suid = true,
        b"suid" => to.no_suid = false,
        b"nodev" => to.no_dev = true,
        b"dev" => to.no_dev = false,
        b"noexec" => to.no_exec = true,
        b"exec" => to.no_exec = false,
        // A user who mounts gets no rights of others by that, as mount(8) says; it adds the options that a later one takes back.
        b"user" | b"users" | b"owner" | b"group" => {}
        b"defaults" | b"auto" | b"noauto" | b"nouser" | b"nofail" | b"_netdev" => {}
        b"atime" | b"noatime" | b"diratime" | b"nodiratime" | b"relatime" | b"norelatime" => {}
        _ if [&b"x-"[..], b"X-", b"comment=", b"user="].iter().any(|prefix| option.starts_with(prefix)) => {}
        _ => match option.strip_prefix(b"log=") {
            Some(file) => {
                anyhow::ensure!(!file.is_empty(), "log= takes a file");
                to.log = Some(OsStr::from_bytes(file).into());
            }
            None => return Ok(false),
        },
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> anyhow::Result<Asked> {
        Asked::of(words.split(' ').map(OsString::from))
    }

    #[test]
    fn options_are_those_of_fstab() {
        let asked_for = |words| asked(words).unwrap().arguments;
        let plain = asked_for("/store /mnt -o rw,noauto,user,_netdev,x-systemd.automount,defaults");
        assert_eq!((plain.file.to_str(), plain.folder.to_str()), (Some("/store"), Some("/mnt")));
        assert!(plain.daemon && !plain.read_only && !plain.power_failure && !plain.no_sync && !plain.no_suid);
        let all =
            asked_for("/store /mnt -n -v -t fuse.pagewalk -o ro,allow_other -o nosuid,nodev,noexec,log=/l");
        assert!(
            all.read_only && all.allow_other && all.no_suid && all.no_dev && all.no_exec && all.log.is_some()
        );
        assert!(
            asked_for("/store /mnt -o sync,strict").power_failure
                && asked_for("-o nosync /store /mnt").no_sync
        );
        assert!(asked_for("/store /mnt -o writeback").write_back);
        assert!(!asked_for("/store /mnt -o ro,rw,nosuid,suid").read_only);
        assert!(asked("/store /mnt -fsn -o unknown").unwrap().is_fake);
        let log = b"/l\xe9";
        let words = ["/store", "/mnt", "-o"].map(OsString::from);
        let options = OsStr::from_bytes(&[b"ro,log=", &log[..]].concat()).to_owned();
        let any = Asked::of(words.into_iter().chain([options])).unwrap().arguments;
        assert_eq!((any.read_only, any.log.as_deref()), (true, Some(OsStr::from_bytes(log).as_ref())));
        for (wrong, word) in [
            ("/store /mnt -o rw,unknown", "`unknown`"),
            ("/store /mnt -o uid=5", "`uid=5`"),
            ("/store /mnt -o ro,sync", "one is possible"),
            ("/store /mnt -o ro,strict", "not strict"),
            ("/store /mnt -o writeback,sync", "writeback is not"),
            ("/store", "1 paths"),
            ("/store /mnt /more", "3 paths"),
            ("/store /mnt -x", "-x"),
            ("/store /mnt -o", "-o takes"),
        ] {
            let error = format!("{:#}", asked(wrong).unwrap_err());
            assert!(error.contains(word), "{wrong}: {error}");
        }
    }

    #[test]
    fn helpers_are_known_by_their_names() {
        let is = |name: &str| is_helper(Some(OsStr::new(name)));
        assert!(is("/sbin/mount.fuse.pagewalk") && is("mount.pagewalk"));
        assert!(!is("pagewalk") && !is("/usr/bin/mount") && !is_helper(None));
    }
}
