//! Selects role and launcher of a new worker. Pure.

use crate::error::ConfigError;
use crate::model::{Config, DEFAULT_ROLE, Launcher};

/// Returns the role of a new worker: the given one (free text), `defaults.role`, or `default`. A blank role
/// counts as absent.
pub fn choose_role<'a>(config: &'a Config, given: Option<&'a str>) -> &'a str {
    present(given).or(config.defaults.role.as_deref()).unwrap_or(DEFAULT_ROLE)
}

/// Returns the launcher of a new worker: the given one, the role's `preferredLauncher`, or
/// `defaults.launcher`.
///
/// # Errors
/// `LAUNCHER_NOT_FOUND` if no launcher is named (no details) or the name is unknown.
pub fn choose_launcher<'a>(
    config: &'a Config,
    given: Option<&'a str>,
    role: &str,
) -> Result<(&'a str, &'a Launcher), ConfigError> {
    let preferred = || config.role_hints.get(role).and_then(|hint| hint.preferred_launcher.as_deref());
    let name =
        present(given).or_else(preferred).or(config.defaults.launcher.as_deref()).ok_or_else(|| {
            ConfigError::LauncherNotChosen {
                installed: Vec::new(),
                known: config.launchers.keys().cloned().collect(),
            }
        })?;
    Ok((name, config.launcher(name)?))
}

fn present(given: Option<&str>) -> Option<&str> {
    given.map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RoleHint;

    fn config() -> Config {
        let mut config = Config::default();
        for name in ["codex", "gemini", "kiro"] {
            config.launchers.insert(name.to_owned(), Launcher::new(name));
        }
        let hint = RoleHint { preferred_launcher: Some("gemini".to_owned()), ..RoleHint::default() };
        config.role_hints.insert("reviewer".to_owned(), hint);
        config.role_hints.insert("developer".to_owned(), RoleHint::default());
        config.defaults.launcher = Some("codex".to_owned());
        config.defaults.role = Some("developer".to_owned());
        config
    }

    #[test]
    fn role_is_given_then_default_then_the_word_default() {
        let mut config = config();
        assert_eq!(choose_role(&config, Some("anything at all")), "anything at all");
        assert_eq!(choose_role(&config, Some("  ")), "developer");
        assert_eq!(choose_role(&config, None), "developer");
        config.defaults.role = None;
        assert_eq!(choose_role(&config, None), "default");
    }

    #[test]
    fn launcher_is_given_then_preferred_then_default() {
        let config = config();
        let chosen = |given, role| choose_launcher(&config, given, role).unwrap().0.to_owned();
        assert_eq!(chosen(Some("kiro"), "reviewer"), "kiro");
        assert_eq!(chosen(None, "reviewer"), "gemini");
        assert_eq!(chosen(Some(""), "reviewer"), "gemini");
        assert_eq!(chosen(None, "developer"), "codex");
        assert_eq!(chosen(None, "unheard-of"), "codex");
    }

    #[test]
    fn no_launcher_at_all_has_no_details() {
        let error = choose_launcher(&Config::default(), None, "default").unwrap_err();
        assert_eq!(error.code(), "LAUNCHER_NOT_FOUND");
        assert!(error.details().is_empty());
    }

    #[test]
    fn an_unknown_launcher_is_named_and_the_known_ones_are_listed() {
        let config = config();
        let error = choose_launcher(&config, Some("nope"), "default").unwrap_err();
        assert_eq!(error.code(), "LAUNCHER_NOT_FOUND");
        assert_eq!(error.details()["launcher"], "nope");
        assert_eq!(error.details()["name"], "nope");
        assert!(error.message().contains("codex, gemini, kiro"), "{error}");
    }

    #[test]
    fn an_unknown_role_hint_is_named() {
        let error = config().role_hint("nope").unwrap_err();
        assert_eq!(error.code(), "ROLE_HINT_NOT_FOUND");
        assert_eq!(error.details()["name"], "nope");
    }
}
