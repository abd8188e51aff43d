//! How help is arranged: the groups of commands, the groups of flags, and the one screen of `-h`.
//!
//! The only place that knows the groups. It is read when help is shown; a command that is understood never gets here.

use std::ffi::OsString;

use clap::{Arg, Command};
use unicode_width::UnicodeWidthStr as _;

use super::global;

/// The width of every help text.
const WIDTH: usize = 80;

/// The group of commands that stand in no other one.
const MORE: &str = "More";

/// The commands of the top help. A command that is missing here stands at the end of [`MORE`].
const COMMANDS: &[(&str, &[&str])] = &[
    ("Work", &["run", "send", "wait", "watch", "show", "result", "diff", "land", "cancel"]),
    ("Questions", &["approve", "answer", "approval"]),
    ("Overview", &["top", "ls", "status", "panel", "tree", "budget", "usage", "summary"]),
    ("Agents", &["init", "launcher", "placement", "agent", "memory", "policy", "config"]),
    (
        MORE,
        &[
            "worker",
            "worktree",
            "stop",
            "rm",
            "logs",
            "task",
            "turn",
            "queue",
            "session",
            "hook",
            "schedule",
            "trigger",
            "notify",
            "mcp",
            "prompt",
            "daemon",
            "doctor",
            "prune",
            "backup",
            "restore",
            "completions",
            "demo",
            "role",
        ],
    ),
    ("Several managers", &["controller"]),
];

const WHAT: &str = "What";
const WHO: &str = "Who";
const LIMITS: &str = "Limits";
const WAITING: &str = "Waiting";
const OUTPUT: &str = "Output";
/// The heading of flags without a group, as in clap.
const OPTIONS: &str = "Options";

/// The groups of flags, by the ids of their arguments. `send timeout` is the flag of that command alone.
const FLAGS: &[(&str, &[&str])] = &[
    (
        WHAT,
        &[
            "text",
            "text_file",
            "text_stdin",
            "attach",
            "blocks_json",
            "request_approval",
            "debug_mode",
            "no_debug_mode",
            "turn_id",
            "input",
            "request_id",
            "decision",
            "always",
            "option_id",
            "alias",
            "note",
            "accept",
            "decline",
            "cancel",
            "content_json",
            "answer set",
            "until",
            "from_event_id",
            "after_latest",
            "include_history",
            "event_type",
            "since",
            "tail",
            "approve all",
            "approve tree",
            "description",
            "system_prompt",
            "allowed_tool",
            "disallowed_tool",
            "result_schema",
            "run detach",
        ],
    ),
    (
        WHO,
        &[
            "worker_id",
            "launcher",
            "role",
            "agent",
            "agents",
            "name",
            "label",
            "tag",
            "selector",
            "all",
            "tree",
            "controller_id",
            "cwd",
            "on",
            "config",
            "resume",
            "mode",
            "model",
            "set",
            "mcp_config",
            "add_dir",
            "all_workspaces",
            "parent",
            "root",
            "status",
        ],
    ),
    (
        LIMITS,
        &[
            "run timeout",
            "task run timeout",
            "allow",
            "ask",
            "deny",
            "delegate",
            "sandbox",
            "max_turns",
            "max_wall_time",
            "max_tokens",
            "max_cost",
            "max_steps",
            "on_budget",
            "on_unknown",
            "idle_timeout",
            "on_rate_limit",
            "approval_timeout",
            "on_approval_timeout",
        ],
    ),
    (
        WAITING,
        &[
            "wait_for_match",
            "no_wait",
            "wait_until",
            "wait_timeout_seconds",
            "wait_no_progress_timeout_seconds",
            "no_progress_timeout_seconds",
            "timeout_seconds",
            "timeout",
            "follow",
            "wait any",
            "wait all",
            "if_busy",
            "queue",
            "no_wait_for_answers",
            "background",
            "detach",
        ],
    ),
    (
        OUTPUT,
        &[
            "no_ask",
            "exit_status",
            "output",
            "summary",
            "junit",
            "quiet",
            "json",
            "ndjson",
            "raw",
            "stat",
            "name_only",
            "print_env",
            "help",
        ],
    ),
];

/// What `-h` shows of the commands that are typed most.
const SHORT: &[(&str, &[&str])] = &[
    (
        "run",
        &[
            "text_file",
            "attach",
            "name",
            "model",
            "cwd",
            "timeout",
            "allow",
            "deny",
            "max_cost",
            "detach",
            "no_ask",
            "output",
        ],
    ),
    ("send", &["text_file", "attach", "detach", "timeout", "queue", "no_ask", "json"]),
    ("wait", &["until", "selector", "any", "timeout", "no_ask", "exit_status", "json"]),
    ("watch", &["all", "selector", "follow", "timeout", "tail", "since", "ndjson"]),
    ("approve", &["request_id", "decision", "always", "note", "all", "json"]),
    ("diff", &["stat", "name_only", "cwd", "json"]),
];

/// What `-h` of the other commands leaves to `--help`.
const RARE: &[&str] = &[
    "cwd",
    "config",
    "input",
    "agents",
    "controller_id",
    "worker_id",
    "help",
    "label",
    "resume",
    "mcp_config",
    "add_dir",
    "idle_timeout",
    "debounce",
    "with_changes",
    "on_rate_limit",
    "approval_timeout",
    "on_approval_timeout",
    "max_wall_time",
    "max_tokens",
    "on_budget",
    "on_unknown",
    "debug_mode",
    "no_debug_mode",
    "text_stdin",
    "system_prompt",
    "allowed_tool",
    "disallowed_tool",
    "max_steps",
];

/// Returns the command line as help shows it, with everything below it built.
///
/// The width is not part of the definitions, because clap copies it to each of some ninety commands.
pub(crate) fn documented(program: Command) -> Command {
    let mut program = program.term_width(WIDTH);
    program.build();
    let program = grouped(program, &mut Vec::new());
    match program.get_name() {
        "subagent" => {
            let (short, long) = (overview(&program, false), overview(&program, true));
            program
                .override_usage("subagent <COMMAND>")
                .help_template(TOP)
                .before_help(short)
                .before_long_help(long)
        }
        _ => program,
    }
}

/// The top help. Its commands are in `before-help`, which differs between `-h` and `--help`.
const TOP: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// Puts each flag below its heading, in this command and all below it.
fn grouped(command: Command, path: &mut Vec<String>) -> Command {
    let name = path.join(" ");
    let ungrouped = path.is_empty();
    // The long top help shows the flag of all commands, and no other help does.
    let command = command.mut_args(|arg| match (arg.get_id() == global::HOST, ungrouped) {
        (true, true) => arg.hide_short_help(true),
        (true, false) => arg.hide(true),
        (false, _) => arg,
    });
    let command = command.mut_args(|arg| match heading(&name, arg.get_id().as_str()) {
        Some(heading) if !arg.is_positional() && !ungrouped => arg.help_heading(heading),
        _ => arg,
    });
    command.mut_subcommands(|below| {
        path.push(below.get_name().to_owned());
        let below = grouped(below, path);
        path.pop();
        below
    })
}

fn heading(command: &str, id: &str) -> Option<&'static str> {
    let own = format!("{command} {id}");
    let of = |wanted: &str| FLAGS.iter().find(|(_, ids)| ids.contains(&wanted)).map(|(heading, _)| *heading);
    of(&own).or_else(|| of(id))
}

/// The commands in their groups. The short form only names those of [`MORE`].
fn overview(program: &Command, long: bool) -> String {
    let shown: Vec<&Command> = program
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help")
        .collect();
    let width = shown.iter().map(|below| below.get_name().len()).max().unwrap_or(0);
    let mut text = String::from("Commands:");
    for (heading, names) in COMMANDS {
        let listed = names.iter().filter_map(|name| shown.iter().find(|below| below.get_name() == *name));
        let mut group: Vec<&&Command> = listed.collect();
        if *heading == MORE {
            group.extend(shown.iter().filter(|below| !is_grouped(below.get_name())));
        }
        text.push_str(&format!("\n {heading}"));
        if *heading == MORE && !long {
            let names: Vec<&str> = group.iter().map(|below| below.get_name()).collect();
            text.push_str(&wrapped(&names.join(", ")));
            continue;
        }
        for below in group {
            let name = below.get_name();
            text.push_str(&format!("\n  {name:width$}  {}", about(below)));
        }
    }
    if !long {
        text.push_str("\n\n`subagent COMMAND -h` is one screen, `subagent --help` says more.");
    }
    text
}

fn is_grouped(name: &str) -> bool {
    COMMANDS.iter().any(|(_, names)| names.contains(&name))
}

/// Words in lines, each on a new line below a heading.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut room = 0;
    for word in text.split(' ') {
        if word.len() + 1 > room {
            out.push_str("\n  ");
            room = WIDTH - 2;
        } else {
            out.push(' ');
            room -= 1;
        }
        out.push_str(word);
        room -= word.len();
    }
    out
}

fn about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    about.lines().next().unwrap_or_default().to_owned()
}

/// Gives the command that `-h` is typed for its one screen.
///
/// Only a command that does something has one; a list of commands is short as it is.
pub(crate) fn shorten(program: &mut Command, args: &[OsString]) {
    let typed = args.iter().take_while(|arg| *arg != "--");
    if !typed.clone().any(|arg| arg == "-h") || typed.clone().any(|arg| arg == "--help") {
        return;
    }
    let mut command = program;
    let mut path: Vec<&str> = Vec::new();
    for name in typed.filter_map(|arg| arg.to_str()) {
        if command.find_subcommand(name).is_none() {
            break;
        }
        path.push(name);
        let Some(below) = command.find_subcommand_mut(name) else { return };
        command = below;
    }
    if !path.is_empty() && !command.has_subcommands() {
        let screen = screen(command, &path.join(" "));
        *command = std::mem::take(command).override_help(screen);
    }
}

/// The one screen: a line a flag, in groups, and where the rest is.
fn screen(command: &mut Command, path: &str) -> String {
    let usage = command.render_usage().to_string();
    let about = about(command);
    let mut text = format!("{}\n\n{}\n\n", fitting(&about, WIDTH), usage.trim_end());
    let chosen = SHORT.iter().find(|(name, _)| *name == path).map(|(_, ids)| *ids);
    let is_shown = |arg: &&Arg| {
        let id = arg.get_id().as_str();
        let wanted = chosen.map_or_else(|| !RARE.contains(&id), |ids| ids.contains(&id));
        !arg.is_hide_set() && (arg.is_positional() || wanted)
    };
    let shown: Vec<&Arg> = command.get_arguments().filter(is_shown).collect();
    let width = shown.iter().map(|arg| named(arg).width()).max().unwrap_or(0);
    let headings = [WHAT, WHO, LIMITS, WAITING, OPTIONS, OUTPUT];
    for heading in headings {
        let of = |arg: &&&Arg| group_of(arg) == heading;
        let mut lines = shown.iter().filter(of).peekable();
        if lines.peek().is_some() {
            text.push_str(&format!("{heading}:\n"));
        }
        for arg in lines {
            let name = named(arg);
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let room = WIDTH.saturating_sub(width + 4);
            text.push_str(&format!("  {name:width$}  {}\n", fitting(&help, room)));
        }
    }
    text.push_str(&format!("\nAll flags and examples: subagent {path} --help"));
    text
}

fn group_of(arg: &Arg) -> &str {
    match arg.is_positional() {
        true => WHAT,
        false => arg.get_help_heading().unwrap_or(OPTIONS),
    }
}

/// An argument as it is typed.
fn named(arg: &Arg) -> String {
    match (arg.is_positional(), arg.get_short(), arg.get_long()) {
        (true, ..) => arg.to_string(),
        (false, Some(short), Some(_)) => format!("-{short}, {arg}"),
        (false, Some(_), None) => arg.to_string(),
        (false, None, _) => format!("    {arg}"),
    }
}

/// The part of a help that fits a line: whole clauses, so that what is left is a sentence.
fn fitting(help: &str, room: usize) -> &str {
    let line = help.lines().next().unwrap_or_default().trim_end();
    if line.width() <= room {
        return line;
    }
    // A list behind a colon is worth less than what stands before it.
    let clause = [&["; ", " (", " [", ". "][..], &[": "], &[", "]].into_iter().find_map(|marks| {
        let ends = (0..line.len()).filter(|at| line.is_char_boundary(*at));
        let ends = ends.filter(|at| marks.iter().any(|mark| line[*at..].starts_with(mark)));
        ends.map(|at| line[..at].trim_end()).rfind(|clause| clause.width() <= room)
    });
    let words = || line.match_indices(' ').map(|(at, _)| &line[..at]).rfind(|words| words.width() <= room);
    clause.or_else(words).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::{Cli, parse};

    fn short(line: &str) -> String {
        let args = line.split(' ').chain(["-h"]).filter(|word| !word.is_empty()).map(OsString::from);
        parse(args).unwrap_err().to_string()
    }

    #[test]
    fn the_groups_name_commands_and_flags_that_exist() {
        fn ids(command: &Command, found: &mut Vec<String>) {
            found.extend(command.get_arguments().map(|arg| arg.get_id().to_string()));
            command.get_subcommands().for_each(|below| ids(below, found));
        }
        let program = documented(Cli::command());
        let names: Vec<&str> = COMMANDS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for name in &names {
            assert!(program.find_subcommand(name).is_some(), "{name} is no command");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
        for below in program.get_subcommands().filter(|below| !below.is_hide_set()) {
            let name = below.get_name();
            assert!(name == "help" || is_grouped(name), "{name} is in no group");
        }
        let mut known = Vec::new();
        ids(&program, &mut known);
        let listed = FLAGS.iter().chain(SHORT).flat_map(|(_, ids)| ids.iter()).chain(RARE);
        for id in listed {
            let id = id.rsplit(' ').next().unwrap();
            assert!(known.iter().any(|found| found == id), "{id} is no argument");
        }
    }

    #[test]
    fn the_top_help_has_groups_and_controllers_stand_last() {
        for text in [short(""), parse(["--help".into()]).unwrap_err().to_string()] {
            let headings: Vec<&str> =
                text.lines().filter(|line| line.starts_with(' ') && !line.starts_with("  ")).collect();
            assert_eq!(headings.len(), COMMANDS.len(), "{text}");
            let last = text.lines().skip_while(|line| *line != " Several managers").nth(1).unwrap();
            assert!(last.starts_with("  controller "), "{text}");
            assert!(text.lines().all(|line| line.width() <= WIDTH), "{text}");
        }
        assert!(short("").lines().count() <= 48, "{}", short(""));
    }

    #[test]
    fn a_common_command_has_one_screen_with_a_line_a_flag() {
        for (command, ids) in SHORT {
            let text = short(command);
            assert!(text.lines().count() <= 24, "{text}");
            let lines = text.lines().filter(|line| line.trim_start().starts_with('-')).count();
            assert_eq!(lines, ids.len(), "{text}");
            assert!(text.ends_with("--help\n"), "{text}");
        }
    }

    #[test]
    fn the_screens_of_all_commands_fit() {
        fn below(command: &Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
            {
                let path = format!("{path} {}", sub.get_name()).trim_start().to_owned();
                if sub.has_subcommands() {
                    below(sub, &path);
                    continue;
                }
                let text = short(&path);
                assert!(text.lines().all(|line| line.width() <= WIDTH), "{text}");
                assert!(text.lines().count() <= 34, "{} lines\n{text}", text.lines().count());
                assert!(
                    text.len()
                        < parse(path.split(' ').chain(["--help"]).map(OsString::from))
                            .unwrap_err()
                            .to_string()
                            .len()
                );
            }
        }
        below(&documented(Cli::command()), "");
    }

    #[test]
    fn a_long_help_is_cut_at_the_end_of_a_clause() {
        assert_eq!(fitting("Send this file along: text, a picture", 30), "Send this file along");
        assert_eq!(fitting("One line\nand more", 30), "One line");
        assert_eq!(fitting("no clause in this text", 12), "no clause in");
    }
}
