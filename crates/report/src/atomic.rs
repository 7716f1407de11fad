//! Writing a file so that a reader sees all of it or none.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Writes `bytes` to `path`: into a temporary file in the same folder, which then takes the name. On failure the
/// old file, if any, is untouched and nothing is left behind.
///
/// A symbolic link is followed, and what is no regular file (`/dev/stdout`, a pipe) is written to directly: to
/// replace it would be a surprise.
///
/// # Errors
///
/// The system's error, with its kind, and a text that names the path.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()));
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => {
            let text = "it is a folder; name a file in it";
            Err(named(io::Error::new(io::ErrorKind::IsADirectory, text)))
        }
        Ok(meta) if meta.is_file() => fs::canonicalize(path)
            .and_then(|target| replace(&target, bytes, meta.permissions()))
            .map_err(named),
        Ok(_) => fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(named),
        // The usual permissions of a new file; the system takes the process's umask away.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            replace(path, bytes, Permissions::from_mode(0o666)).map_err(named)
        }
        Err(error) => Err(named(error)),
    }
}

fn replace(path: &Path, bytes: &[u8], permissions: Permissions) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let mut file =
        tempfile::Builder::new().prefix(".pagewalk-").permissions(permissions).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_created_and_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        write_atomically(&path, b"a longer first version").unwrap();
        write_atomically(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["report.json"]);
    }

    #[test]
    fn permissions_are_those_of_a_usual_file_or_of_the_one_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        let usual = folder.path().join("usual");
        fs::write(&usual, b"").unwrap();
        write_atomically(&path, b"1").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), mode(&usual));
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        write_atomically(&path, b"2").unwrap();
        assert_eq!(mode(&path), 0o640);
    }

    #[test]
    fn a_symbolic_link_stays_and_its_target_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, b"old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        write_atomically(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn errors_name_the_path_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("no/such/report.json");
        let error = write_atomically(&missing, b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("no/such/report.json"), "{error}");
        let error = write_atomically(folder.path(), b"x").unwrap_err();
        assert!(error.to_string().contains("it is a folder"), "{error}");
        let file = folder.path().join("file");
        fs::write(&file, b"kept").unwrap();
        assert!(write_atomically(&file.join("below"), b"x").is_err());
        assert_eq!(names(folder.path()), ["file"]);
        assert_eq!(fs::read(&file).unwrap(), b"kept");
    }
}
