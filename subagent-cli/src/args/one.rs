//! The parser of one command alone. To build that of all commands takes a third of the instructions of a command that asks
//! the daemon for something.
//!
//! Only for what it takes: help, errors and everything that is not in the list are the whole parser's.

use std::ffi::OsString;

use clap::{Args, Command};

use super::answer::Answer;
use super::doctor::Doctor;
use super::removal::{Prune, WorkerRm};
use super::run::Run;
use super::turns::{Approve, Cancel, Send, Wait, Watch};
use super::workers::{
    WorkerInspect, WorkerList, WorkerLogs, WorkerRestart, WorkerShow, WorkerStart, WorkerStop,
};

type Augment = fn(Command) -> Command;

/// Commands of one word.
const ONE_WORD: &[(&str, Augment)] = &[
    ("run", Run::augment_args),
    ("send", Send::augment_args),
    ("watch", Watch::augment_args),
    ("wait", Wait::augment_args),
    ("approve", Approve::augment_args),
    ("answer", Answer::augment_args),
    ("cancel", Cancel::augment_args),
    ("doctor", Doctor::augment_args),
    ("prune", Prune::augment_args),
];

/// Those below `worker`.
const WORKER: &[(&str, Augment)] = &[
    ("start", WorkerStart::augment_args),
    ("list", WorkerList::augment_args),
    ("show", WorkerShow::augment_args),
    ("stop", WorkerStop::augment_args),
    ("logs", WorkerLogs::augment_args),
    ("inspect", WorkerInspect::augment_args),
    ("restart", WorkerRestart::augment_args),
    ("rm", WorkerRm::augment_args),
];

/// A parser for the command that these arguments (without the program's name) begin with, if it is in the list.
pub(super) fn parser(args: &[OsString]) -> Option<Command> {
    let word = |index: usize| args.get(index)?.to_str();
    let one = |list: &[(&'static str, Augment)], name: &str| {
        let (name, augment) = list.iter().find(|(known, _)| *known == name)?;
        Some(augment(Command::new(*name)))
    };
    let command = match word(0)? {
        "worker" => Command::new("worker").subcommand(one(WORKER, word(1)?)?),
        name => one(ONE_WORD, name)?,
    };
    Some(Command::new("subagent").args_override_self(true).subcommand(command))
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, parse, parse_with, with_any_values};
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn a_command_is_understood_as_by_the_parser_of_all() {
        for line in [
            "worker list --json",
            "worker list --controller-id c --controller-id d --cwd . -l a=b --json --json",
            "worker show w_1 --json",
            "worker start --launcher x --label -1 --json",
            "worker inspect w_1 --tail 20",
            "worker logs w_1",
            "worker stop w_1",
            "worker restart w_1",
            "worker rm w_1",
            "send --worker-id w_1 --text --text --no-wait --wait --wait-timeout-seconds 5 --attach a --attach b",
            "send --worker-id=w_1 --text=a --text b --request-approval --input -",
            "wait --worker-id w_1 --worker-id w_2 --any --until turn.completed",
            "watch --worker-id w_1 --follow",
            "approve --worker-id w_1 --request ap_1 --decision allow --note -x",
            "answer --worker-id w_1 --request ap_1 --decline",
            "cancel --worker-id w_1",
            "doctor --json",
            "prune --json",
            "run --launcher x --cwd . --text hello --output ndjson --allow a --allow b",
        ] {
            let args = words(line);
            let all = parse_with(with_any_values(<Cli as clap::CommandFactory>::command()), &args);
            let alone = parser(&args).map(|parser| parse_with(with_any_values(parser), &args));
            let (all, alone) = (all.ok(), alone.unwrap().ok());
            assert!(all.is_some(), "{line}");
            let said = |parsed: &Option<(Cli, super::super::Typed)>| {
                parsed.as_ref().map(|(cli, typed)| {
                    let mut typed: Vec<_> = typed.0.iter().cloned().collect();
                    typed.sort();
                    format!("{cli:?} {typed:?}")
                })
            };
            assert_eq!(said(&all), said(&alone), "{line}");
        }
        for other in ["", "worker", "daemon status", "--help", "help send", "worker list2"] {
            assert!(parser(&words(other)).is_none(), "{other}");
        }
    }

    #[test]
    fn what_is_refused_is_refused_in_the_words_of_the_parser_of_all() {
        for line in ["send --help", "worker list --jsn", "send --wait-timeout-seconds x", "send --version"] {
            let told = parse(words(line)).unwrap_err().to_string();
            let all = with_any_values(<Cli as clap::CommandFactory>::command());
            let expected = parse_with(all, &words(line)).unwrap_err().to_string();
            assert_eq!(told, expected, "{line}");
        }
        assert!(parse(words("worker list --jsn")).unwrap_err().to_string().contains("subagent worker list"));
    }
}
