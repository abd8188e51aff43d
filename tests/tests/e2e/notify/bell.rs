//! The bell of the user's terminals.

use std::fs::File;
use std::io::Read as _;
use std::sync::mpsc;
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::pty::openpty;
use nix::sched::{CloneFlags, unshare};
use subagent_tests::harness::say;

use super::{SOON, settled, world};

/// Gives this thread and its child processes terminals of their own: a bell rings on every terminal of the user.
fn with_own_terminals() -> nix::Result<()> {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("devpts"), "/dev/pts", Some("devpts"), MsFlags::empty(), Some("newinstance,ptmxmode=0666"))
}

/// A question rings; the end of its turn does not.
fn rings_at_a_question() {
    if let Err(error) = with_own_terminals() {
        return say(&format!("SKIPPED, NOTHING WAS TESTED: this user may not mount terminals ({error})"));
    }
    let terminal = openpty(None, None).unwrap();
    let (heard, hears) = mpsc::channel();
    let mut master = File::from(terminal.master);
    thread::spawn(move || {
        let mut byte = [0; 1];
        while master.read_exact(&mut byte).is_ok() && heard.send(byte[0]).is_ok() {}
    });
    let (sandbox, worker) = world("  - {to: bell, on: [question]}");
    let asked = sandbox.send(&worker, "!ask execute make all");
    assert_eq!(hears.recv_timeout(SOON), Ok(b'\x07'));
    let delivered = settled(&sandbox, "delivered");
    assert_eq!(delivered["eventId"], asked["matchedEvent"]["eventId"]);
    sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    assert_eq!(sandbox.turn_end(&asked)["type"], "turn.completed");
    sandbox.finish();
    // Everything that could ring has ended.
    drop(terminal.slave);
    assert_eq!(hears.recv_timeout(SOON), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn a_question_rings_the_bell_of_a_terminal() {
    thread::spawn(rings_at_a_question).join().unwrap();
}
