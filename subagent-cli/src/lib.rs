//! The command line: `subagent` (what a manager types), and the thin mains of `subagentd` and
//! `subagent-runtime`. Architecture invariants: it holds no state and opens no database; it knows
//! no rule of the control plane. Only this crate writes to a terminal.

mod ask;
pub mod client;
mod command_line;
mod commands;
mod completion;
pub mod context;
mod controller;
pub mod daemon;
pub mod demo;
pub mod demo_agent;
mod dialog;
pub mod doctor;
pub mod exit_code;
pub mod failure;
pub mod input;
mod mcp;
pub mod output;
pub mod prompt;
mod random;
#[cfg(test)]
mod reference;
mod sibling_executable;
mod starting;
mod tasks;
mod umask;

use std::ffi::OsString;
use std::process::ExitCode;

use context::CliContext;
use output::{OutputFormat, finish};

/// `subagent`: everything between the arguments (without the program's name) and the exit code.
pub fn main(args: Vec<OsString>) -> ExitCode {
    // Before the command line is parsed: an agent starts within a millisecond, and its flags are its own.
    if args.first().is_some_and(|first| first == "demo-agent") {
        return demo_agent::run(args.into_iter().skip(1));
    }
    // A shell waits for it at each Tab, and its words are those of an unfinished command line.
    if let Some((first, words)) = args.split_first()
        && first == completion::COMMAND
    {
        let command = <commands::Cli as clap::CommandFactory>::command();
        return completion::run(words, command_line::global::with_host(command));
    }
    // As in the Python program, but nothing is written into the startup files of a shell.
    if let Some(wanted) = args.first().and_then(|first| commands::completions::Legacy::parse(first)) {
        let shell = args.get(1).map(|shell| shell.to_string_lossy());
        return finish(OutputFormat::Text, commands::completions::legacy(wanted, shell.as_deref()));
    }
    let args = if args.is_empty() && commands::top::is_meant() { vec!["top".into()] } else { args };
    let parsed =
        commands::parse(args.iter().cloned()).or_else(|error| match commands::watch_all(&error, &args) {
            Some(all) if output::terminal::OutputTerminal::of_stdout().is_some() => commands::parse(all),
            _ => Err(error),
        });
    let (cli, typed) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return command_line::unparsed::exit("subagent", &error, &args),
    };
    let format = cli.command.format(&typed);
    let result = CliContext::of_process(format, typed)
        .and_then(|context| commands::host_use::chosen(context, &cli.command))
        .and_then(|context| commands::host_use::run(cli.command, &args, &context));
    finish(format, result)
}
