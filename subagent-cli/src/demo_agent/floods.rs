//! Script directives for volume and noise: many chunks, long lines, invalid bytes.

use std::io::Write;
use std::time::Instant;

use super::script::Amount;
use super::turn::{DemoTurn, EarlyEnd};

/// Number of updates between two polls of the input.
const BURST: u64 = 256;

/// Sends `count` chunks, each with its own write.
pub(super) fn chunks(turn: &mut DemoTurn<'_>, count: u64, text: Option<&str>) -> Result<(), EarlyEnd> {
    for index in 0..count {
        turn.poll()?;
        match text {
            Some(text) => turn.say(text)?,
            None => turn.say(&format!("chunk {index} "))?,
        }
        turn.agent.out.flush()?;
    }
    Ok(())
}

/// Sends `count` chunks at the speed of the pipe.
pub(super) fn stream(turn: &mut DemoTurn<'_>, count: u64) -> Result<(), EarlyEnd> {
    let (mut line, tail) = turn.agent.out.chunk_frame(&turn.session);
    let head = line.len();
    turn.keep(&format!("(stream of {count} chunks)"));
    for index in 0..count {
        if index % BURST == 0 {
            turn.poll()?;
        }
        line.truncate(head);
        // Writing to a Vec cannot fail.
        write!(line, "chunk {index} ")?;
        line.extend_from_slice(&tail);
        turn.agent.out.raw(&line)?;
    }
    Ok(())
}

/// Sends one update whose line has exactly `bytes` bytes, including its line end.
pub(super) fn line(turn: &mut DemoTurn<'_>, bytes: usize) -> Result<Option<String>, EarlyEnd> {
    let (head, tail) = turn.agent.out.chunk_frame(&turn.session);
    let Some(fill) = bytes.checked_sub(head.len() + tail.len()) else {
        let least = head.len() + tail.len();
        return Ok(Some(format!("!line: the shortest line is {least} bytes, not {bytes}")));
    };
    turn.keep(&format!("(line of {bytes} bytes)"));
    turn.agent.out.raw(&head)?;
    pad(turn, fill)?;
    turn.agent.out.raw(&tail)?;
    Ok(None)
}

/// Sends updates with `bytes` bytes of text each.
pub(super) fn flood(turn: &mut DemoTurn<'_>, amount: Amount, bytes: usize) -> Result<(), EarlyEnd> {
    let (head, tail) = turn.agent.out.chunk_frame(&turn.session);
    turn.keep("(flood)");
    let mut line = head;
    line.resize(line.len() + bytes, b'x');
    line.extend_from_slice(&tail);
    let begin = Instant::now();
    let mut sent = 0;
    loop {
        let done = match amount {
            Amount::Count(count) => sent >= count,
            Amount::Time(time) => begin.elapsed() >= time,
        };
        if done {
            return Ok(());
        }
        if sent % BURST == 0 || bytes > 64 * 1024 {
            turn.poll()?;
        }
        turn.agent.out.raw(&line)?;
        sent += 1;
    }
}

/// Writes lines to stdout that are not ACP messages.
pub(super) fn noise(turn: &mut DemoTurn<'_>) -> Result<(), EarlyEnd> {
    let lines: [&[u8]; 6] =
        [b"warning: this line is not JSON", b"", b"\xff\xfe invalid UTF-8 \xc3", b"[1,2,3]", b"{}", b"  "];
    for line in lines {
        turn.agent.out.raw(line)?;
        turn.agent.out.raw(b"\n")?;
    }
    Ok(())
}

fn pad(turn: &mut DemoTurn<'_>, mut bytes: usize) -> Result<(), EarlyEnd> {
    const BLOCK: [u8; 4096] = [b'x'; 4096];
    while bytes > 0 {
        let part = bytes.min(BLOCK.len());
        turn.agent.out.raw(&BLOCK[..part])?;
        bytes -= part;
    }
    Ok(())
}
