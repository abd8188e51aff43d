//! All errors of this crate: one variant per failed operation, with its stable code and details. It
//! contains no wording for a terminal (hints, colors); the caller prints [`ConfigError::message`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use subagent_protocol::{Code, Error};

use crate::known;
use crate::policy::Position;

/// A failure to find, read, check or write a file of this crate. None of them is retryable.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// `--config` or `SUBAGENT_CONFIG` names a missing file.
    #[error(
        "the config file {path} given by {origin} does not exist; correct the path, or create it with `subagent config init --path {path}`",
        path = path.display()
    )]
    ConfigMissing {
        /// The absolute path of the missing file.
        path: PathBuf,
        /// The source of the path: `--config` or `SUBAGENT_CONFIG`.
        origin: &'static str,
    },
    /// The config file exists but is unreadable.
    #[error("cannot read the config file {}: {cause}", path.display())]
    ConfigUnreadable {
        /// Path of the config file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The config file is neither JSON nor YAML.
    #[error("{}{}: {problem}", path.display(), at(*line, *column))]
    ConfigSyntax {
        /// Path of the config file.
        path: PathBuf,
        /// The problem at this position.
        problem: String,
        /// Line from 1, if known.
        line: Option<u64>,
        /// Column from 1, if known.
        column: Option<u64>,
    },
    /// The config file is well-formed but contains an invalid value.
    #[error("{}{}: {place} {problem}", path.display(), standing(*at))]
    ConfigInvalid {
        /// Path of the config file.
        path: PathBuf,
        /// The place in the document.
        place: FieldPath,
        /// The problem, worded to follow the place in a sentence.
        problem: String,
        /// The position in the text, if it is known for this key.
        at: Option<Position>,
    },
    /// `config init` would overwrite an existing file.
    #[error("{} already exists; use --force to replace it, or --path to write elsewhere", path.display())]
    ConfigExists {
        /// Path of the existing file.
        path: PathBuf,
    },
    /// `config init` failed to write its file.
    #[error("cannot write the config file {}: {cause}", path.display())]
    ConfigUnwritable {
        /// Path of the config file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The user's config path is needed, but the home directory is unknown.
    #[error("the home directory is unknown: set HOME, or name the file with --path")]
    HomeUnknown,
    /// `--scope` is neither `user` nor `project`.
    #[error("unknown scope `{scope}`; use `user` or `project`")]
    ScopeUnknown {
        /// The value of the option.
        scope: String,
    },
    /// `--cwd` is not an accessible directory.
    #[error("cannot use {} as working directory: {cause}", cwd.display())]
    CwdUnusable {
        /// The path after resolution.
        cwd: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The working directory and its parents have no workspace marker.
    #[error(
        "no workspace found in {} or above it (no .subagent folder with a config.yaml, controller.json or state in it, and no .git); go into a project, or name one with --cwd",
        cwd.display()
    )]
    WorkspaceRootNotFound {
        /// The folder where the search began.
        cwd: PathBuf,
    },
    /// The named launcher is not configured.
    #[error("launcher `{name}` is not configured; {}", known_launchers(known))]
    LauncherNotFound {
        /// The name that is not configured.
        name: String,
        /// The configured names, sorted.
        known: Vec<String>,
    },
    /// No launcher was named, and the number of installed agents is not one.
    #[error("no launcher was chosen: {}", not_chosen(installed, known))]
    LauncherNotChosen {
        /// The launchers whose agents are installed, sorted.
        installed: Vec<String>,
        /// The names of all launchers.
        known: Vec<String>,
    },
    /// The named role has no hint.
    #[error("role `{name}` has no hint in the config file; {}", known_names(known, "role"))]
    RoleHintNotFound {
        /// The name that has no hint.
        name: String,
        /// The configured names, sorted.
        known: Vec<String>,
    },
    /// `controller.json` could not be written.
    #[error("cannot write the controller hint {}: {cause}", path.display())]
    ControllerHintUnwritable {
        /// Path of the hint file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The state directory cannot be created or written to.
    #[error(
        "cannot write to the state directory {}: {cause}; make it writable, or set SUBAGENT_STATE_DIR to another folder",
        state_dir.display()
    )]
    StateDirUnwritable {
        /// Path of the state directory.
        state_dir: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The state directory is on a file system without reliable locks and shared memory.
    #[error(
        "the state directory {} is on {file_system}, where file locks and shared memory are not dependable; set SUBAGENT_STATE_DIR to a folder on a local disk",
        state_dir.display()
    )]
    StateDirUnsupportedFs {
        /// Path of the state directory.
        state_dir: PathBuf,
        /// Name of the file system, such as `nfs`.
        file_system: &'static str,
    },
    /// Another user could control the socket directory.
    #[error("refusing to use the socket directory {}: {problem}", path.display())]
    RuntimeDirUnsafe {
        /// Path of the socket directory.
        path: PathBuf,
        /// The problem and its correction.
        problem: String,
    },
    /// The socket directory cannot be created or examined.
    #[error("cannot create the socket directory {}: {cause}", path.display())]
    RuntimeDirUnwritable {
        /// Path of the socket directory.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// A socket path exceeds the kernel's limit.
    #[error(
        "the socket path {} is longer than the {limit} bytes that the system allows; set XDG_RUNTIME_DIR to a shorter folder of yours",
        path.display()
    )]
    SocketPathTooLong {
        /// The path that is too long.
        path: PathBuf,
        /// Maximum length in bytes.
        limit: usize,
    },
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        // Every code of this crate parses. If one did not, the message would still explain the error.
        let code = Code::parse(error.code()).unwrap_or(Code::Internal);
        let mut of = Self::new(code, error.message());
        of.details = error.details();
        match error.cause() {
            Some(cause) => of.or_storage_full(cause),
            None => of,
        }
    }
}

impl ConfigError {
    /// The error of the operating system, if there is one.
    fn cause(&self) -> Option<&io::Error> {
        match self {
            Self::ConfigUnreadable { cause, .. }
            | Self::ConfigUnwritable { cause, .. }
            | Self::ControllerHintUnwritable { cause, .. }
            | Self::RuntimeDirUnwritable { cause, .. }
            | Self::StateDirUnwritable { cause, .. }
            | Self::CwdUnusable { cause, .. } => Some(cause),
            _ => None,
        }
    }

    /// The stable code for the error envelope.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ConfigMissing { .. }
            | Self::ConfigUnreadable { .. }
            | Self::ConfigSyntax { .. }
            | Self::ConfigInvalid { .. } => "CONFIG_PARSE_ERROR",
            Self::ConfigExists { .. } => "CONFIG_ALREADY_EXISTS",
            Self::ConfigUnwritable { .. } => "CONFIG_UNWRITABLE",
            Self::HomeUnknown | Self::ScopeUnknown { .. } | Self::CwdUnusable { .. } => "INVALID_ARGUMENT",
            Self::WorkspaceRootNotFound { .. } => "WORKSPACE_ROOT_NOT_FOUND",
            Self::LauncherNotFound { .. } | Self::LauncherNotChosen { .. } => "LAUNCHER_NOT_FOUND",
            Self::RoleHintNotFound { .. } => "ROLE_HINT_NOT_FOUND",
            Self::ControllerHintUnwritable { .. } => "CONTROLLER_HINT_UNWRITABLE",
            Self::StateDirUnwritable { .. } => "STATE_DIR_UNWRITABLE",
            Self::StateDirUnsupportedFs { .. } => "STATE_DIR_UNSUPPORTED_FS",
            Self::RuntimeDirUnsafe { .. } => "RUNTIME_DIR_UNSAFE",
            Self::RuntimeDirUnwritable { .. } => "RUNTIME_DIR_UNWRITABLE",
            Self::SocketPathTooLong { .. } => "SOCKET_PATH_TOO_LONG",
        }
    }

    /// The whole message including the cause, as `Display` prints it.
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// The `details` for the error envelope; may be empty.
    pub fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        let mut put = |key: &str, value: Value| details.insert(key.to_owned(), value);
        match self {
            Self::ConfigMissing { path, .. } => {
                put("path", text(path));
                put("error", "the file does not exist".into());
            }
            Self::ConfigUnreadable { path, cause }
            | Self::ConfigUnwritable { path, cause }
            | Self::ControllerHintUnwritable { path, cause }
            | Self::RuntimeDirUnwritable { path, cause } => {
                put("path", text(path));
                put("error", cause.to_string().into());
            }
            Self::ConfigSyntax { path, problem, line, column } => {
                put("path", text(path));
                put("error", problem.as_str().into());
                if let Some(line) = line {
                    put("line", (*line).into());
                }
                if let Some(column) = column {
                    put("column", (*column).into());
                }
            }
            Self::ConfigInvalid { path, place, at, .. } => {
                put("path", text(path));
                place.details(&mut put);
                if let Some(at) = at {
                    put("line", at.line.into());
                    put("column", at.column.into());
                }
            }
            Self::ConfigExists { path } => {
                put("path", text(path));
            }
            Self::HomeUnknown | Self::LauncherNotChosen { .. } => {}
            Self::ScopeUnknown { scope } => {
                put("scope", scope.as_str().into());
            }
            Self::CwdUnusable { cwd, cause } => {
                put("cwd", text(cwd));
                put("error", cause.to_string().into());
            }
            Self::WorkspaceRootNotFound { cwd } => {
                put("cwd", text(cwd));
            }
            // Older versions of `launcher show` and `launcher probe` use different keys.
            Self::LauncherNotFound { name, .. } => {
                put("name", name.as_str().into());
                put("launcher", name.as_str().into());
            }
            Self::RoleHintNotFound { name, .. } => {
                put("name", name.as_str().into());
            }
            Self::StateDirUnwritable { state_dir, cause } => {
                put("stateDir", text(state_dir));
                put("error", cause.to_string().into());
            }
            Self::StateDirUnsupportedFs { state_dir, file_system } => {
                put("stateDir", text(state_dir));
                put("fileSystem", (*file_system).into());
            }
            Self::RuntimeDirUnsafe { path, problem } => {
                put("path", text(path));
                put("error", problem.as_str().into());
            }
            Self::SocketPathTooLong { path, limit } => {
                put("path", text(path));
                put("limit", (*limit).into());
            }
        }
        details
    }
}

/// A place in a config document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldPath {
    /// A value by its dotted path; `root` is the document.
    Field(String),
    /// An element of a list.
    Element {
        /// Path of the list.
        field: String,
        /// Index of the element from 0.
        index: usize,
    },
    /// An entry of a mapping whose keys the user chooses.
    Entry {
        /// Path of the mapping.
        field: String,
        /// Key of the entry.
        key: String,
    },
    /// The `command` of a launcher.
    Command {
        /// Name of the launcher.
        launcher: String,
    },
    /// A text field of a role hint.
    Hint {
        /// Name of the role.
        role: String,
        /// The key inside the hint.
        key: &'static str,
    },
    /// One of a role hint's skills.
    Skill {
        /// Name of the role.
        role: String,
        /// Index of the skill from 0.
        index: usize,
    },
}

impl FieldPath {
    /// Translates the paths of a place to those of another kind of file.
    pub(crate) fn map(self, words: impl Fn(String) -> String) -> Self {
        match self {
            Self::Field(field) => Self::Field(words(field)),
            Self::Element { field, index } => Self::Element { field: words(field), index },
            Self::Entry { field, key } => Self::Entry { field: words(field), key: words(key) },
            Self::Command { launcher } => Self::Command { launcher: words(launcher) },
            Self::Hint { role, key } => Self::Hint { role: words(role), key },
            Self::Skill { role, index } => Self::Skill { role: words(role), index },
        }
    }

    fn details(&self, put: &mut impl FnMut(&str, Value) -> Option<Value>) {
        match self {
            Self::Field(field) => {
                put("field", field.as_str().into());
            }
            Self::Element { field, index } => {
                put("field", field.as_str().into());
                put("index", (*index).into());
            }
            Self::Entry { field, key } => {
                put("field", field.as_str().into());
                put("key", key.as_str().into());
            }
            Self::Command { launcher } => {
                put("launcher", launcher.as_str().into());
            }
            Self::Hint { role, .. } => {
                put("roleHint", role.as_str().into());
            }
            Self::Skill { role, index } => {
                put("roleHint", role.as_str().into());
                put("index", (*index).into());
            }
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) if field == "root" => write!(f, "the document"),
            Self::Field(field) => write!(f, "`{field}`"),
            Self::Element { field, index } => write!(f, "`{field}[{index}]`"),
            Self::Entry { field, key } => write!(f, "`{field}.{key}`"),
            Self::Command { launcher } => write!(f, "`launchers.{launcher}.command`"),
            Self::Hint { role, key } => write!(f, "`roleHints.{role}.{key}`"),
            Self::Skill { role, index } => write!(f, "`roleHints.{role}.recommendedSkills[{index}]`"),
        }
    }
}

fn text(path: &Path) -> Value {
    path.to_string_lossy().into_owned().into()
}

fn standing(place: Option<Position>) -> String {
    at(place.map(|place| place.line), place.map(|place| place.column))
}

fn at(line: Option<u64>, column: Option<u64>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!(":{line}:{column}"),
        (Some(line), None) => format!(":{line}"),
        _ => String::new(),
    }
}

fn known_launchers(known: &[String]) -> String {
    format!("{} (`subagent init` finds installed agents)", names_of(known))
}

fn names_of(known: &[String]) -> String {
    // The user's own names come before the built-in ones.
    let (built_in, own): (Vec<&str>, Vec<&str>) =
        known.iter().map(String::as_str).partition(|name| known::NAMES.contains(name));
    format!("known: {}", [own, built_in].concat().join(", "))
}

fn not_chosen(installed: &[String], known: &[String]) -> String {
    match installed {
        [] => format!("no agent is installed; install one, then run `subagent init`; {}", names_of(known)),
        several => format!(
            "use --launcher with one of these: {}; `subagent init` sets a default",
            several.join(", ")
        ),
    }
}

fn known_names(known: &[String], what: &str) -> String {
    if known.is_empty() {
        format!("no {what} is configured (`subagent config init` writes a config file to begin with)")
    } else {
        format!("configured: {}", known.join(", "))
    }
}
