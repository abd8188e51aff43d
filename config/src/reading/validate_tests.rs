//! Tests of valid and invalid config documents.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn place_of(document: Value) -> FieldPath {
    match config(&document) {
        Ok(accepted) => panic!("accepted {document} as {accepted:?}"),
        Err(violation) => violation.place,
    }
}

fn field(path: &str) -> FieldPath {
    FieldPath::Field(path.to_owned())
}

/// Returns a document with one launcher `a`, a command and these keys.
fn with_launcher(extra: Value) -> Value {
    let mut launcher = json!({"command": "x"});
    launcher.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"launchers": {"a": launcher}})
}

#[test]
fn a_full_document() {
    let document = json!({
        "futureKey": 1,
        "launchers": {"b": {"backend": {"kind": "acp-stdio"}, "command": "npx -y b", "args": ["--acp", ""],
            "env": {"K": "v", "EMPTY": ""}, "mode": " plan ", "model": "", "configOptions": {"effort": "high", "fast": true},
            "timeouts": {"startupSeconds": 1, "turnSeconds": 0.5, "cancelGraceSeconds": 3}},
            "a": {"command": " a "}},
        "roleDefaults": {"promptLanguage": "de"},
        "roleHints": {"reviewer": {"preferredLauncher": " b ", "responseLanguage": "fr",
            "delegationHint": " for reviews ", "recommendedSkills": [" one ", "two"]}},
        "defaults": {"launcher": " b ", "role": " reviewer ", "later": [1]},
    });
    let config = config(&document).unwrap();
    assert_eq!(config.launchers.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(config.launchers["a"], Launcher::new(" a "));
    let launcher = &config.launchers["b"];
    assert_eq!(launcher.args, ["--acp", ""]);
    assert_eq!(launcher.env["EMPTY"], "");
    assert_eq!(launcher.options.mode.as_deref(), Some("plan"));
    assert_eq!(launcher.options.model, None);
    assert_eq!(launcher.options.config_options["fast"], json!(true));
    assert_eq!(launcher.timeouts.startup, Duration::from_secs(1));
    assert_eq!(launcher.timeouts.turn, Some(Duration::from_millis(500)));
    assert_eq!(launcher.timeouts.cancel_grace, Duration::from_secs(3));
    assert_eq!(config.role_defaults.prompt_language, "de");
    assert_eq!(config.role_defaults.response_language, "same_as_manager");
    let hint = &config.role_hints["reviewer"];
    assert_eq!(hint.preferred_launcher.as_deref(), Some("b"));
    assert_eq!(hint.prompt_language, None);
    assert_eq!(hint.response_language.as_deref(), Some("fr"));
    assert_eq!(hint.delegation_hint.as_deref(), Some("for reviews"));
    assert_eq!(hint.recommended_skills, ["one", "two"]);
    assert_eq!(config.defaults.launcher.as_deref(), Some("b"));
    assert_eq!(config.defaults.role.as_deref(), Some("reviewer"));
    assert_eq!(Value::Object(config.defaults.other), json!({"later": [1]}));
}

#[test]
fn null_is_absent() {
    let nothing = json!({"launchers": null, "roleDefaults": null, "roleHints": null, "defaults": null});
    assert_eq!(config(&nothing), Ok(Config::default()));
    assert_eq!(config(&Value::Null), Ok(Config::default()));
    assert_eq!(config(&json!({})), Ok(Config::default()));
    let document =
        with_launcher(json!({"backend": {"kind": null}, "args": null, "env": null, "timeouts": null}));
    assert_eq!(config(&document).unwrap().launchers["a"], Launcher::new("x"));
    let hint = json!({"preferredLauncher": null, "promptLanguage": null, "recommendedSkills": null});
    let hint = config(&json!({"roleHints": {"r": hint}})).unwrap().role_hints["r"].clone();
    assert_eq!(hint, RoleHint::default());
}

#[test]
fn null_is_a_problem_where_a_name_stands_alone() {
    assert_eq!(place_of(json!({"launchers": {"a": null}})), field("launchers.a"));
    assert_eq!(place_of(with_launcher(json!({"backend": null}))), field("launchers.a.backend"));
    assert_eq!(place_of(json!({"roleHints": {"r": null}})), field("roleHints.r"));
    for key in ["promptLanguage", "responseLanguage"] {
        let document = json!({"roleDefaults": {key: null}});
        assert_eq!(place_of(document), field(&format!("roleDefaults.{key}")));
    }
}

#[test]
fn a_blank_hint_is_absent() {
    let document =
        json!({"roleHints": {"r": {"preferredLauncher": "", "delegationHint": "  ", "promptLanguage": ""}}});
    assert_eq!(config(&document).unwrap().role_hints["r"], RoleHint::default());
}

#[test]
fn timeouts_have_defaults() {
    let timeouts = config(&with_launcher(json!({"timeouts": {}}))).unwrap().launchers["a"].timeouts;
    assert_eq!(timeouts.startup, Duration::from_secs(60));
    assert_eq!(timeouts.turn, None);
    assert_eq!(timeouts.cancel_grace, Duration::from_secs(10));
}

#[test]
fn wrong_types_are_problems_also_when_falsy() {
    for wrong in [json!(0), json!(""), json!(false), json!([]), json!("x")] {
        assert_eq!(place_of(wrong.clone()), field("root"), "{wrong}");
        for key in ["launchers", "roleDefaults", "roleHints", "defaults"] {
            assert_eq!(place_of(json!({key: wrong})), field(key), "{wrong}");
        }
        assert_eq!(place_of(json!({"launchers": {"a": wrong}})), field("launchers.a"));
        assert_eq!(place_of(json!({"roleHints": {"a": wrong}})), field("roleHints.a"));
        for key in ["backend", "env", "timeouts"] {
            assert_eq!(place_of(with_launcher(json!({key: wrong}))), field(&format!("launchers.a.{key}")));
        }
    }
    for wrong in [json!(0), json!(""), json!(false), json!({})] {
        assert_eq!(place_of(with_launcher(json!({"args": wrong}))), field("launchers.a.args"));
        let document = json!({"roleHints": {"r": {"recommendedSkills": wrong}}});
        assert_eq!(place_of(document), field("roleHints.r.recommendedSkills"));
    }
    for wrong in [json!(0), json!(false), json!([]), json!({})] {
        for (section, key) in [
            ("roleDefaults", "promptLanguage"),
            ("roleDefaults", "responseLanguage"),
            ("defaults", "launcher"),
            ("defaults", "role"),
        ] {
            assert_eq!(place_of(json!({section: {key: wrong}})), field(&format!("{section}.{key}")));
        }
        for key in ["preferredLauncher", "promptLanguage", "responseLanguage", "delegationHint"] {
            let place = place_of(json!({"roleHints": {"r": {key: wrong}}}));
            assert_eq!(place, FieldPath::Hint { role: "r".to_owned(), key });
        }
        assert_eq!(
            place_of(with_launcher(json!({"backend": {"kind": wrong}}))),
            field("launchers.a.backend.kind")
        );
    }
}

#[test]
fn a_command_must_be_there_and_not_blank() {
    let expected = FieldPath::Command { launcher: "a".to_owned() };
    for launcher in [json!({}), json!({"command": null}), json!({"command": " "}), json!({"command": 1})] {
        assert_eq!(place_of(json!({"launchers": {"a": launcher}})), expected, "{launcher}");
    }
    assert_eq!(place_of(json!({"launchers": {"a": {"command": "a\u{0}b"}}})), expected);
}

#[test]
fn elements_and_entries_are_named() {
    for wrong in [json!(1), json!(null), json!(true), json!("a\u{0}")] {
        let place = place_of(with_launcher(json!({"args": ["ok", wrong]})));
        assert_eq!(place, FieldPath::Element { field: "launchers.a.args".to_owned(), index: 1 });
        let place = place_of(with_launcher(json!({"env": {"OK": "1", "K": wrong}})));
        assert_eq!(place, FieldPath::Entry { field: "launchers.a.env".to_owned(), key: "K".to_owned() });
    }
    for name in ["", "A=B", "A\u{0}"] {
        let place = place_of(with_launcher(json!({"env": {name: "x"}})));
        assert_eq!(place, FieldPath::Entry { field: "launchers.a.env".to_owned(), key: name.to_owned() });
    }
    for wrong in [json!(""), json!("  "), json!(null), json!(7)] {
        let place = place_of(json!({"roleHints": {"r": {"recommendedSkills": ["ok", wrong]}}}));
        assert_eq!(place, FieldPath::Skill { role: "r".to_owned(), index: 1 });
    }
    let blank = place_of(json!({"launchers": {" ": {"command": "x"}}}));
    assert_eq!(blank, FieldPath::Entry { field: "launchers".to_owned(), key: " ".to_owned() });
}

#[test]
fn timeouts_have_bounds() {
    for (key, wrong) in [
        ("startupSeconds", json!(0.9)),
        ("startupSeconds", json!(true)),
        ("turnSeconds", json!(0)),
        ("turnSeconds", json!(-1)),
        ("turnSeconds", json!("5")),
        ("turnSeconds", json!(1e-300)),
        ("turnSeconds", json!(1e300)),
        ("cancelGraceSeconds", json!(0)),
        ("cancelGraceSeconds", json!(u64::MAX)),
        ("cancelGraceSeconds", json!([])),
    ] {
        let document = with_launcher(json!({"timeouts": {key: wrong}}));
        assert_eq!(place_of(document), field(&format!("launchers.a.timeouts.{key}")), "{wrong}");
    }
}

#[test]
fn a_misplaced_value_is_not_repeated() {
    let violation = config(&json!({"launchers": {"a": "sk-secret"}})).unwrap_err();
    assert!(!violation.problem.contains("secret"), "{violation:?}");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("command"),
        Just("args"),
        Just("env"),
        Just("backend"),
        Just("kind"),
        Just("timeouts"),
        Just("turnSeconds"),
        Just("recommendedSkills"),
        Just("launcher"),
        Just("a"),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..4).prop_map(|entries| Value::Object(
                entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn any_document_is_accepted_or_refused(section in "launchers|roleDefaults|roleHints|defaults", value in any_value()) {
        if let Ok(config) = config(&json!({section: value})) {
            for launcher in config.launchers.values() {
                prop_assert!(!launcher.command.trim().is_empty());
                prop_assert!(launcher.timeouts.startup >= Duration::from_secs(1));
                prop_assert!(launcher.timeouts.turn.is_none_or(|turn| !turn.is_zero()));
            }
        }
    }
}
