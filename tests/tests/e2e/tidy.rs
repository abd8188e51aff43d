//! Policy as tests: layers, sizes, dependencies, and forbidden content of files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of lines of a file without a reason.
const MAX_LINES: usize = 600;
/// Longer files, with their reasons.
const LONG_FILES: &[(&str, &str)] =
    &[("tests/tests/e2e/demo_agent.rs", "one test for each directive and flag of the scripted agent")];

/// Maximum number of files directly in a folder below a `src`.
const MAX_FILES: usize = 20;
/// The folder that has a file for each command.
const COMMANDS: &str = "subagent-cli/src/commands";
/// Folders with more files, and their numbers. Only lower them.
const FULL_FOLDERS: &[(&str, usize)] = &[("worker-runtime/src/worktree", 23)];

/// The only function of each suite that polls a condition, with a limit.
const POLLS: &[&str] = &[
    "tests/benches/targets/distance.rs",
    "tests/src/harness/wait.rs",
    "tests/tests/e2e/demo_agent.rs",
    "worker-runtime/tests/it/support.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns all files of the project with these endings, with their paths below the root.
pub(super) fn files(endings: &[&str]) -> Vec<(String, String)> {
    fn walk(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                let ours = name == ".github"
                    || !(name.starts_with('.') || name == "target" || name == "node_modules");
                if ours {
                    walk(&path, endings, found);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    walk(&root, endings, &mut found);
    found.sort();
    let name = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    found.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// Returns the lines of a file before its unit tests.
fn product_lines(text: &str) -> usize {
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

#[test]
fn each_kind_of_placement_is_a_short_file() {
    let kinds = ["ssh", "podman", "slurm", "kubernetes", "command"];
    for kind in kinds {
        let path = format!("protocol/src/placement/{kind}.rs");
        let lines = product_lines(&fs::read_to_string(root().join(&path)).unwrap());
        assert!(lines <= 250, "{path} has {lines} lines; move a part into a file below {kind}/");
    }
}

#[test]
fn only_the_store_knows_its_database() {
    const WORDS: [&str; 7] = ["sqlite", "SQLite", "SELECT ", "INSERT INTO ", "PRAGMA ", "-wal\"", "-shm\""];
    // The doctor reads the file while no daemon runs. The others name the database in a comment.
    const ELSEWHERE: [&str; 7] = [
        "config/src/places/file_system.rs",
        "protocol/src/api/maintenance/examination.rs",
        "subagent-cli/link.rs",
        "subagent-cli/src/doctor/database.rs",
        "subagent-cli/src/doctor/permissions.rs",
        "subagentd/src/store/",
        "worker-runtime/src/lib.rs",
    ];
    for (path, text) in files(&[".rs"]) {
        if path.starts_with("tests/") || ELSEWHERE.iter().any(|elsewhere| path.starts_with(elsewhere)) {
            continue;
        }
        let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let found = WORDS.iter().find(|word| product.contains(**word));
        assert!(found.is_none(), "{path} has `{}`, which belongs into subagentd/src/store", found.unwrap());
    }
}

#[test]
fn windows_is_refused_in_one_sentence() {
    let source = fs::read_to_string(root().join("protocol/src/lib.rs")).unwrap();
    let (_, refusal) = source.split_once("#[cfg(windows)]\ncompile_error!(").unwrap();
    let sentence = refusal.split('"').nth(1).unwrap();
    assert!(sentence.starts_with("subagent does not build for Windows: "), "{sentence}");
    assert!(sentence.ends_with("use WSL 2 or Linux") && !sentence.contains('\n'), "{sentence}");
}

/// Returns the dependencies of a crate, without those of its tests.
fn dependencies(folder: &str, section: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
    let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn layers_depend_on_what_is_below_them() {
    let forbidden: &[(&str, &[&str])] = &[
        (
            "protocol",
            &[
                "tokio",
                "nix",
                "rusqlite",
                "hyper",
                "axum",
                "interprocess",
                "subagent-config",
                "subagent-runtime",
                "subagentd",
            ],
        ),
        (
            "model",
            &[
                "tokio",
                "nix",
                "rusqlite",
                "hyper",
                "axum",
                "interprocess",
                "subagent-config",
                "subagent-runtime",
            ],
        ),
        ("config", &["tokio", "rusqlite", "hyper", "axum", "subagent-runtime", "subagentd"]),
        (
            "sandbox",
            &["tokio", "rusqlite", "hyper", "axum", "subagent-config", "subagent-runtime", "subagentd"],
        ),
        ("worker-runtime", &["rusqlite", "hyper", "axum", "subagent-config", "subagentd", "subagent-cli"]),
        ("subagentd", &["subagent-runtime", "subagent-cli"]),
        ("panel", &["rusqlite", "axum", "subagent-runtime", "subagentd", "subagent-cli"]),
        ("webhook", &["tokio", "rusqlite", "axum", "subagent-config", "subagentd", "subagent-cli"]),
        ("subagent-cli", &["rusqlite", "axum", "subagent-tests"]),
        ("tests", &["subagentd", "subagent-config"]),
    ];
    for (folder, names) in forbidden {
        let has = dependencies(folder, "[dependencies]");
        assert!(!has.is_empty(), "{folder}: no dependencies were read");
        for name in *names {
            assert!(!has.contains(*name), "{folder} must not depend on {name}");
        }
    }
    let core: Vec<String> = dependencies("core", "[dependencies]").into_iter().collect();
    assert_eq!(core, ["serde", "serde_json", "sha2", "subagent-protocol"], "the rules know `protocol` alone");
    assert!(
        dependencies("testkit", "[dependencies]").is_empty(),
        "testkit must build before everything else"
    );
}

/// The files that cargo builds as test executables, each with the folder of its modules.
const TEST_EXECUTABLES: &[&str] = &[
    "subagentd/tests/it",
    "tests/tests/counts",
    "tests/tests/e2e",
    "tests/tests/faults",
    "tests/tests/real_agents",
    "worker-runtime/tests/it",
];

#[test]
fn every_file_of_a_test_belongs_to_one_of_few_executables() {
    let sources = files(&[".rs"]);
    for (name, _) in &sources {
        let Some((package, rest)) = name.split_once("/tests/").filter(|(package, _)| !package.contains('/'))
        else {
            continue;
        };
        let folder = format!("{package}/tests/{}", rest.split('/').next().unwrap());
        assert!(TEST_EXECUTABLES.contains(&folder.as_str()), "{name} is a test executable of its own");
    }
    for folder in TEST_EXECUTABLES {
        let own = || sources.iter().filter(|(name, _)| name.starts_with(&format!("{folder}/")));
        let mut declared: Vec<&str> = own()
            .flat_map(|(_, text)| text.lines())
            .filter_map(|line| {
                let line = line.trim_start();
                line.strip_prefix("pub(super) ").unwrap_or(line).strip_prefix("mod ")?.strip_suffix(';')
            })
            .collect();
        let mut there: Vec<&str> = own()
            .filter_map(|(name, _)| {
                let module = name.strip_suffix(".rs").unwrap();
                let module = module.strip_suffix("/mod").unwrap_or(module);
                (!module.ends_with("/main")).then(|| module.rsplit('/').next().unwrap())
            })
            .collect();
        declared.sort_unstable();
        there.sort_unstable();
        assert_eq!(declared, there, "{folder}: modules that are declared, and files that are there");
    }
}

#[test]
fn the_rules_of_the_daemon_do_nothing_but_think() {
    let effects = [
        "std::fs",
        "std::net",
        "std::process",
        "std::thread",
        "std::env",
        "tokio",
        "rusqlite",
        "nix::",
        "SystemTime",
        "Instant",
    ];
    for (name, text) in files(&[".rs"]) {
        if name.starts_with("core/src/") {
            for effect in effects {
                assert!(!text.contains(effect), "{name} mentions {effect}: core only decides");
            }
        }
        if name.starts_with("subagentd/src/") && !name.starts_with("subagentd/src/store/") {
            assert!(!text.contains("rusqlite"), "{name} mentions rusqlite: only the store knows SQLite");
        }
        if name.starts_with("subagentd/src/") {
            for print in ["println!", "eprintln!"] {
                assert!(!text.contains(print), "{name} prints: a daemon has a log");
            }
        }
    }
}

#[test]
fn a_file_says_what_it_is_for() {
    for (name, text) in files(&[".rs"]) {
        assert!(text.starts_with("//!"), "{name} must begin with `//!` and its purpose");
    }
}

#[test]
fn files_are_small() {
    for (name, text) in files(&[".rs"]) {
        let lines = text.lines().count();
        let reason = LONG_FILES.iter().find(|(long, _)| *long == name);
        assert!(
            lines <= MAX_LINES || reason.is_some(),
            "{name} has {lines} lines; split it, or give the reason"
        );
        assert!(
            lines > MAX_LINES || reason.is_none(),
            "{name} has only {lines} lines: it needs no reason any more"
        );
    }
}

#[test]
fn folders_hold_few_files() {
    let sources = files(&[".rs"]);
    let folders = sources.iter().filter_map(|(name, _)| Some(name.rsplit_once('/')?.0));
    let mut counts = BTreeMap::new();
    for folder in folders.filter(|folder| format!("{folder}/").contains("/src/") && *folder != COMMANDS) {
        *counts.entry(folder).or_insert(0) += 1;
    }
    counts.retain(|_, count| *count > MAX_FILES);
    assert_eq!(
        counts,
        BTreeMap::from_iter(FULL_FOLDERS.iter().copied()),
        "group the files of a fuller folder by topic; if one has fewer files now, lower its number"
    );
}

#[test]
fn a_dependency_has_a_reason() {
    let text = fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    for name in dependencies("", "[workspace.dependencies]") {
        if !name.starts_with("subagent") {
            assert!(text.contains(&format!("`{name}`")), "docs/dependencies.md has no line for {name}");
        }
    }
    for folder in [
        "protocol",
        "model",
        "config",
        "panel",
        "sandbox",
        "worker-runtime",
        "subagentd",
        "subagent-cli",
        "tests",
    ] {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        for name in dependencies(folder, "[dependencies]") {
            let shared = [format!("{name}.workspace = true"), format!("{name} = {{ workspace = true")];
            assert!(
                shared.iter().any(|form| manifest.contains(form)),
                "{folder}: {name} is not the workspace's"
            );
        }
    }
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    // Assembled here, so that this file does not contain them.
    let places = ["work/", "root/", "home/user"].map(|place| format!("/{place}"));
    for (name, text) in files(&[
        ".rs", ".toml", ".md", ".yaml", ".yml", ".json", ".ndjson", ".txt", ".sql", ".lock", "install",
    ]) {
        for place in &places {
            let mut parts = text.split(place.as_str());
            // As part of a longer path, it is another folder with that name.
            let alone = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || "._-}".contains(c));
            let mut before = parts.next().unwrap_or_default();
            for rest in parts {
                assert!(
                    !alone(before),
                    "{name} mentions {place}: ...{}",
                    &rest.lines().next().unwrap_or_default()
                );
                before = rest;
            }
        }
    }
}

#[test]
fn tests_wait_for_things_and_do_not_sleep() {
    let call = ["thread", "sleep("].join("::");
    for (name, text) in files(&[".rs"]) {
        let in_tests = name.starts_with("tests/") || name.contains("/tests/");
        if in_tests {
            let most = usize::from(POLLS.contains(&name.as_str()));
            assert!(text.matches(&call).count() <= most, "{name} sleeps; wait for something, with a bound");
        }
    }
}

/// Returns the names of tests in a text that begin with the number of a rule, such as `m2_`.
fn tests_of_rules(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
    let is_of_a_rule = |word: &&str| {
        let (rule, name) = word.split_once('_').unwrap_or_default();
        let number = rule.strip_prefix('m').unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty()
    };
    words.filter(is_of_a_rule).collect()
}

#[test]
fn the_table_of_rules_of_delegation_names_their_tests() {
    let document = fs::read_to_string(root().join("docs/internals/delegation.md")).unwrap();
    let sources = files(&[".rs"]);
    let tests: BTreeSet<&str> = sources
        .iter()
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| line.trim_start().split_once("fn ").map(|(_, rest)| rest))
        .filter_map(|rest| tests_of_rules(rest.split('(').next()?).pop_first())
        .collect();
    assert_eq!(tests_of_rules(&document), tests);
    for line in document.lines().filter(|line| line.starts_with("| M")) {
        let rule = line.split(' ').nth(1).unwrap().to_lowercase();
        let named = tests_of_rules(line);
        assert!(
            !named.is_empty() && named.iter().all(|test| test.starts_with(&format!("{rule}_"))),
            "{line}"
        );
    }
}

#[test]
fn the_life_of_a_message_passes_each_file_once() {
    let page = fs::read_to_string(root().join("docs/internals/life-of-a-message.md")).unwrap();
    let named: Vec<&str> = page.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")).collect();
    assert!(named.len() > 30, "{named:?}");
    let sources = files(&[".rs"]);
    let mut seen = BTreeSet::new();
    for name in named {
        let file = format!("/{name}");
        let is_there = sources.iter().any(|(path, _)| format!("/{path}").ends_with(&file));
        assert!(is_there, "no file has the name {name}");
        assert!(seen.insert(name), "{name} is named twice");
    }
}

#[test]
fn every_file_that_a_recipe_for_contributors_names_exists() {
    let all = files(&[".rs", ".md", ".mjs", ".json", ".jsonl", ".ndjson", ".yaml", ".sql", ".toml", ".txt"]);
    let is_path = |name: &&str| {
        let part = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "./_-".contains(char);
        name.contains('/')
            && name.starts_with(|char: char| char.is_ascii_lowercase())
            && name.chars().all(part)
    };
    let recipes = all.iter().filter(|(name, _)| name.starts_with("docs/howto/"));
    let mut named = 0;
    for (recipe, text) in recipes {
        // Without the blocks of code; then each second part is code.
        let prose: String = text.split("```").step_by(2).collect();
        for name in prose.split('`').skip(1).step_by(2).filter(is_path) {
            let inside = format!("/{}", name.trim_end_matches('/'));
            let is_there = |path: &str| path.ends_with(&inside) || path.contains(&format!("{inside}/"));
            let found =
                root().join(name).exists() || all.iter().any(|(path, _)| is_there(&format!("/{path}")));
            assert!(found, "{recipe}: there is no {name}");
            named += 1;
        }
        assert!(text.contains("\n```mermaid\n"), "{recipe} has no picture");
        for index in ["CONTRIBUTING.md", "docs/README.md"] {
            let index = fs::read_to_string(root().join(index)).unwrap();
            assert!(index.contains(recipe.trim_start_matches("docs/")), "no link to {recipe}");
        }
    }
    assert!(named > 60, "only {named} files are named");
}

/// Maximum number of places in 10,000 lines that take a value out of JSON by its key.
const MAX_READS_BY_KEY: usize = 7;

/// Returns the code that is not a test, as lines. Modules of tests and what is below them are left out.
fn product_code() -> Vec<(String, Vec<String>)> {
    let sources: Vec<_> = files(&[".rs"]).into_iter().filter(|(name, _)| name.contains("/src/")).collect();
    let of_tests =
        |name: &str| name.starts_with("tests/") || name.contains("tests") || name.contains("/bin/");
    let mut left_out = Vec::new();
    for (name, text) in &sources {
        let folder = name.strip_suffix(".rs").unwrap();
        let folder =
            ["/mod", "/lib", "/main"].iter().find_map(|end| folder.strip_suffix(end)).unwrap_or(folder);
        let modules = text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| rest.lines().next());
        let modules = modules.filter_map(|line| line.rsplit_once("mod ")?.1.strip_suffix(';'));
        left_out.extend(modules.flat_map(|module| [".rs", "/"].map(|end| format!("{folder}/{module}{end}"))));
    }
    let is_product = |name: &str| !of_tests(name) && !left_out.iter().any(|begin| name.starts_with(begin));
    let product = sources.into_iter().filter(|(name, _)| is_product(name));
    let before_tests = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        let is_begin =
            |two: &[&str]| two[0] == "#[cfg(test)]" && two[1].contains("mod ") && two[1].ends_with('{');
        let end = lines.windows(2).position(is_begin).unwrap_or(lines.len());
        lines[..end].iter().map(|line| (*line).to_owned()).collect()
    };
    product.map(|(name, text)| (name, before_tests(&text))).collect()
}

/// How often a line takes a value by its key: `value["key"]`, `members.get("key")`.
fn reads_by_key(line: &str) -> usize {
    let is_index = |(at, _): &(usize, &str)| {
        let (before, behind) = (&line[..*at], &line[at + 2..]);
        before.ends_with(|end: char| end.is_alphanumeric() || "_)]?".contains(end))
            && behind.split_once('"').is_some_and(|(_, rest)| rest.starts_with(']'))
    };
    line.match_indices("[\"").filter(is_index).count() + line.matches(".get(\"").count()
}

/// Maximum number of fields of a struct.
const MAX_FIELDS: usize = 15;
/// Structs with more fields, and their numbers. Most are shapes of the API, of the config or of stored
/// JSON. Only lower them.
const WIDE_STRUCTS: &[(&str, usize)] = &[
    ("Account", 19),
    ("Config", 19),
    ("Definition", 30),
    ("ErrorFacts", 16),
    ("FinishedData", 19),
    ("HookInput", 23),
    ("Launcher", 16),
    ("OverviewItem", 22),
    ("RuntimeStart", 30),
    ("ScheduleView", 16),
    ("Spec", 25),
    ("StartChoices", 24),
    ("StartFlags", 21),
    ("StartWorker", 32),
    ("TaskView", 24),
    ("ToolCallDescription", 20),
    ("WorkerView", 40),
    ("WorktreeView", 16),
];

/// Returns the structs of a source with the numbers of their fields.
fn fields_of_structs(lines: &[String]) -> Vec<(&str, usize)> {
    fn item(line: &str) -> &str {
        let line = line.trim_start();
        let behind = if line.starts_with("pub(") { line.split_once(") ") } else { line.split_once("pub ") };
        behind.filter(|_| line.starts_with("pub")).map_or(line, |(_, item)| item)
    }
    let in_name = |char: char| char.is_alphanumeric() || char == '_';
    let is_field = |line: &&String| {
        let name = item(line).trim_start_matches("r#").split_once(": ").map(|(name, _)| name);
        name.is_some_and(|name| name.chars().all(in_name))
    };
    let structs = lines.iter().enumerate().filter(|(_, line)| line.ends_with('{'));
    let structs = structs.filter_map(|(at, line)| {
        let name = item(line).strip_prefix("struct ")?.split(|char| !in_name(char)).next()?;
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let body = lines[at + 1..].iter().take_while(|line| **line != end);
        Some((name, body.filter(is_field).count()))
    });
    structs.collect()
}

#[test]
fn structs_have_few_fields() {
    let code = product_code();
    let structs: Vec<(&str, usize)> = code.iter().flat_map(|(_, lines)| fields_of_structs(lines)).collect();
    assert!(structs.len() > 1_000, "only {} structs were read", structs.len());
    let wide: BTreeMap<&str, usize> =
        structs.into_iter().filter(|(_, fields)| *fields > MAX_FIELDS).collect();
    assert_eq!(
        wide,
        BTreeMap::from_iter(WIDE_STRUCTS.iter().copied()),
        "make a part with its own methods of fields that belong together; if one has fewer now, lower its number"
    );
}

#[test]
fn json_is_read_into_types() {
    assert_eq!(reads_by_key(r#"let id = &list["items"][0]["id"]; // or list.get("items")"#), 3);
    assert_eq!(reads_by_key(r#"for word in ["one", "two"] { keys(&["id"]); }"#), 0);
    let code = product_code();
    let lines: usize = code.iter().map(|(_, lines)| lines.len()).sum();
    let is_read = |line: &&String| reads_by_key(line) > 0;
    let places = code.iter().flat_map(|(name, lines)| {
        lines.iter().filter(is_read).map(move |line| format!("{name}: {}", line.trim()))
    });
    let places: Vec<String> = places.collect();
    let found: usize = code.iter().flat_map(|(_, lines)| lines).map(|line| reads_by_key(line)).sum();
    assert!(lines > 100_000, "only {lines} lines were read");
    let share = found * 10_000 / lines;
    let places = places.join("\n");
    assert!(share <= MAX_READS_BY_KEY, "{found} reads by key in {lines} lines:\n{places}");
}
