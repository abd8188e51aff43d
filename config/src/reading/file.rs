//! Reads one config file into a [`Config`]. Every error contains the path of the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::libc::{O_NOCTTY, O_NONBLOCK};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;

use crate::agents::keys;
use crate::check::{self as checks, CheckResult, Violation};
use crate::error::ConfigError;
use crate::hooks::FileHooks;
use crate::hosts::HOSTS;
use crate::model::Config;
use crate::placements::PLACEMENTS;
use crate::{budgets, declared, hooks, notify, placements, policy, regular, syntax, validate};

/// Maximum size of a config file in bytes.
pub const MAX_BYTES: u64 = 1024 * 1024;

/// Maximum time between two writes into a pipe, in seconds.
const PIPE_SECONDS: u16 = 10;

/// Maximum length of quoted file content in bytes.
const MAX_QUOTED: usize = 400;

pub(crate) struct Written {
    pub(crate) text: String,
    /// The parsed document, unchecked.
    pub(crate) document: Value,
}

/// Reads a config file. A pipe is read to its end, so that process substitution works.
///
/// # Errors
/// `CONFIG_PARSE_ERROR` for every failure, including a missing file.
pub(crate) fn load(path: &Path) -> Result<Written, ConfigError> {
    let unreadable = |cause| ConfigError::ConfigUnreadable { path: path.to_owned(), cause };
    written(path, read(path).map_err(unreadable)?)
}

/// Reads a config file if it is regular, because a pipe could block the daemon.
pub(crate) fn load_regular(path: &Path) -> Result<Written, ConfigError> {
    let unreadable = |cause| ConfigError::ConfigUnreadable { path: path.to_owned(), cause };
    written(path, regular::open_to_read(path).and_then(all_of).map_err(unreadable)?)
}

/// Reads a file with another schema in the same way.
pub(crate) fn load_with<T>(
    path: &Path,
    check: impl FnOnce(&Value) -> CheckResult<T>,
) -> Result<T, ConfigError> {
    let unreadable = |cause| ConfigError::ConfigUnreadable { path: path.to_owned(), cause };
    let bytes = read(path).map_err(unreadable)?;
    parse_with(path, &bytes, check)
}

/// Checks the bytes of a config file. `path` appears only in errors.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Config, ConfigError> {
    let Written { text, document } = written(path, bytes.to_vec())?;
    check(path, &text, &document)
}

/// Checks a document that was parsed from `text`.
pub(crate) fn check(path: &Path, text: &str, document: &Value) -> Result<Config, ConfigError> {
    let mut config = located(path, text, validate::config(document))?;
    if let Some(rules) = config.permissions.take() {
        let positions = policy::located(text);
        config.permissions = Some(policy::place_rules(rules, &document["permissions"], &positions));
    }
    place_hooks(&mut config.hooks, text.as_bytes());
    if !(config.schedules.is_empty() && config.triggers.is_empty()) {
        declared::locate(&mut config.schedules, &mut config.triggers, &keys::of(text));
    }
    Ok(config)
}

/// Checks that a project's file has no key that counts only in the user's file.
pub(crate) fn check_project(
    path: &Path,
    text: &str,
    document: &Value,
    user: Option<&Path>,
) -> Result<(), ConfigError> {
    located(path, text, declared::check_project(document, user))
}

/// Adds positions and the file's hash to hooks that were parsed from `bytes`.
fn place_hooks(hooks: &mut FileHooks, bytes: &[u8]) {
    if !hooks.entries.is_empty() {
        hooks.locate(&keys::of(str::from_utf8(bytes).unwrap_or_default()));
        hooks.sha256 = hooks::content_hash(bytes);
    }
}

/// Reads only the hooks of a config file; other keys are not checked.
pub(crate) fn load_hooks(path: &Path) -> Result<FileHooks, ConfigError> {
    let unreadable = |cause| ConfigError::ConfigUnreadable { path: path.to_owned(), cause };
    let bytes = regular::open_to_read(path).and_then(all_of).map_err(unreadable)?;
    parse_with(path, &bytes, |document| {
        let Some(root) = checks::object(Some(document), || "root".to_owned())? else {
            return Ok(FileHooks::default());
        };
        let mut hooks = hooks::of_config(root)?;
        place_hooks(&mut hooks, &bytes);
        Ok(hooks)
    })
}

fn parse_with<T>(
    path: &Path,
    bytes: &[u8],
    check: impl FnOnce(&Value) -> CheckResult<T>,
) -> Result<T, ConfigError> {
    let Written { text, document } = written(path, bytes.to_vec())?;
    located(path, &text, check(&document))
}

fn written(path: &Path, bytes: Vec<u8>) -> Result<Written, ConfigError> {
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        not_utf8(path, error.as_bytes(), valid)
    })?;
    match syntax::parse(&text) {
        Ok(document) => Ok(Written { text, document }),
        Err(found) => Err(ConfigError::ConfigSyntax {
            path: path.to_owned(),
            problem: brief(found.problem),
            line: found.line,
            column: found.column,
        }),
    }
}

/// Adds the position in the text to a violation.
fn located<T>(path: &Path, text: &str, checked: CheckResult<T>) -> Result<T, ConfigError> {
    checked.map_err(|Violation { place, problem }| {
        let keys = keys::of(text);
        let at = policy::located(text).of(&place);
        let at = at.or_else(|| budgets::position(&keys, &place)).or_else(|| hooks::position(&keys, &place));
        let at = at.or_else(|| notify::position(&keys, &place)).or_else(|| declared::position(&keys, &place));
        let of_named = |section| placements::position(&keys, &place, section);
        let at = at.or_else(|| [PLACEMENTS, HOSTS].into_iter().find_map(of_named));
        let path = path.to_owned();
        ConfigError::ConfigInvalid { path, at, place: place.map(brief), problem: brief(problem) }
    })
}

/// Truncates text from a file, which can have any length.
fn brief(mut text: String) -> String {
    if text.len() > MAX_QUOTED {
        text.truncate(text.floor_char_boundary(MAX_QUOTED));
        text.push('…');
    }
    text
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opens without blocking, even for a pipe that has no writer.
    let mut file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK | O_NOCTTY).open(path)?;
    if file.metadata()?.is_file() {
        return all_of(file);
    }
    let mut bytes = Vec::new();
    read_pipe(&mut file, PIPE_SECONDS, &mut bytes)?;
    no_larger(bytes)
}

fn all_of(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    no_larger(bytes)
}

fn no_larger(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Reads a pipe until it ends or stays silent for `seconds`.
fn read_pipe(pipe: &mut File, seconds: u16, bytes: &mut Vec<u8>) -> io::Result<()> {
    let most = usize::try_from(MAX_BYTES).unwrap_or(usize::MAX);
    let mut chunk = [0; 16 * 1024];
    while bytes.len() <= most {
        let mut waits = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waits, PollTimeout::from(seconds.saturating_mul(1000))) {
            Ok(0) => {
                let message = format!("no data arrived on this pipe for {seconds} s");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        match pipe.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(chunk.get(..length).unwrap_or_default()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn not_utf8(path: &Path, bytes: &[u8], valid: usize) -> ConfigError {
    let before = bytes.get(..valid).unwrap_or_default();
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    let columns = String::from_utf8_lossy(before.get(line_start..).unwrap_or_default()).chars().count();
    ConfigError::ConfigSyntax {
        path: path.to_owned(),
        problem: "not UTF-8 text; save the file as UTF-8".to_owned(),
        line: u64::try_from(lines + 1).ok(),
        column: u64::try_from(columns + 1).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(bytes: &[u8]) -> Result<Config, ConfigError> {
        parse(Path::new("/ws/config.yaml"), bytes)
    }

    #[test]
    fn a_directory_a_missing_and_an_oversized_file() {
        let dir = tempfile::tempdir().unwrap();
        let large = dir.path().join("large");
        File::create(&large).unwrap().set_len(MAX_BYTES + 1).unwrap();
        for path in [dir.path().to_owned(), dir.path().join("none"), large] {
            let error = load(&path).err().unwrap();
            assert_eq!(error.code(), "CONFIG_PARSE_ERROR");
            assert_eq!(error.details()["path"], path.to_str().unwrap());
            assert!(!error.details()["error"].as_str().unwrap().is_empty());
        }
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_not_waited_for_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let opened = || OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&path).unwrap();
        let mut bytes = Vec::new();
        let error = read_pipe(&mut opened(), 0, &mut bytes).unwrap_err();
        assert_eq!((error.kind(), bytes.len()), (io::ErrorKind::TimedOut, 0));
        let mut reader = opened();
        let text = "x".repeat(100_000);
        std::thread::scope(|scope| {
            scope.spawn(|| std::fs::write(&path, &text).unwrap());
            read_pipe(&mut reader, PIPE_SECONDS, &mut bytes).unwrap();
        });
        assert_eq!(bytes, text.as_bytes());
    }

    #[test]
    fn who_takes_regular_files_alone_waits_for_no_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        File::create(at("large")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        std::fs::write(at("file"), "defaults: {launcher: a}").unwrap();
        assert_eq!(load_regular(&at("file")).unwrap().text, load(&at("file")).unwrap().text);
        let reported = |name: &str| load_regular(&at(name)).err().unwrap().message();
        assert!(reported("pipe").contains("not a regular file"), "{}", reported("pipe"));
        assert!(reported("large").contains("larger than"), "{}", reported("large"));
    }

    #[test]
    fn not_utf8_is_located() {
        let error = checked(b"a: 1\n# \xc3\xa9t\xe9\n").unwrap_err();
        assert_eq!(error.code(), "CONFIG_PARSE_ERROR");
        let details = error.details();
        assert_eq!((details["line"].as_u64(), details["column"].as_u64()), (Some(2), Some(5)), "{error}");
    }

    #[test]
    fn a_syntax_error_names_file_line_and_column() {
        let error = checked(b"launchers:\n  a: {command: x}\n  a: {command: y}\n").unwrap_err();
        let details = error.details();
        assert_eq!(details["path"], "/ws/config.yaml");
        assert_eq!((details["line"].as_u64(), details["column"].as_u64()), (Some(3), Some(3)), "{error}");
        assert!(error.message().starts_with("/ws/config.yaml:3:3: "), "{error}");
    }

    #[test]
    fn a_schema_error_names_file_and_field() {
        let error = checked(b"launchers:\n  a:\n    command: x\n    args: [1]\n").unwrap_err();
        assert_eq!(error.code(), "CONFIG_PARSE_ERROR");
        let details = error.details();
        assert_eq!(details["field"], "launchers.a.args");
        assert_eq!(details["index"], 0);
        assert_eq!(
            error.message(),
            "/ws/config.yaml: `launchers.a.args[0]` must be a string (put it in quotes), not a number"
        );
    }

    #[test]
    fn an_error_does_not_repeat_a_name_without_end() {
        for name in ["x".repeat(50_000), "é".repeat(50_000)] {
            for bad in [format!("launchers: {{{name}: {{command: 1}}}}"), format!("{name}: [")] {
                let error = checked(bad.as_bytes()).unwrap_err();
                assert!(error.message().len() < 1_500, "{} bytes", error.message().len());
                assert!(serde_json::to_string(&error.details()).unwrap().len() < 1_500);
            }
        }
    }

    #[test]
    fn json_and_yaml_say_the_same() {
        let yaml = checked(b"launchers: {a: {command: x, args: ['-y']}}\ndefaults: {launcher: a}\n").unwrap();
        let json = checked(
            br#"{"launchers": {"a": {"command": "x", "args": ["-y"]}}, "defaults": {"launcher": "a"}}"#,
        );
        assert_eq!(yaml, json.unwrap());
    }

    #[test]
    fn an_empty_file_is_an_empty_config() {
        assert_eq!(checked(b"").unwrap(), Config::default());
        assert_eq!(checked(b"\xef\xbb\xbf").unwrap(), Config::default());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_a_config_or_a_parse_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Err(error) = checked(&bytes) {
                proptest::prop_assert_eq!(error.code(), "CONFIG_PARSE_ERROR");
                proptest::prop_assert!(error.details().contains_key("path"));
            }
        }

        #[test]
        fn a_damaged_config_gives_a_config_or_a_parse_error(at in 0..4000_usize, byte in proptest::num::u8::ANY, cut in 0..5000_usize) {
            let mut bytes = crate::template::TEMPLATE.as_bytes().to_vec();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(cut);
            if let Err(error) = checked(&bytes) {
                proptest::prop_assert_eq!(error.code(), "CONFIG_PARSE_ERROR");
            }
        }
    }
}
