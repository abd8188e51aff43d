//! The grammar of trees, its text form, and random shapes.

use std::fmt;

use crate::harness::Random;

/// The actions of a process, in order; the last one says how it continues to live.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessShape(pub Vec<ProcessStep>);

/// One step of a process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessStep {
    /// Changes something about itself.
    Own(Own),
    /// Forks a child with this shape.
    Fork(ProcessShape),
    /// Forks a grandchild with this shape, whose parent ends at once.
    DoubleFork(ProcessShape),
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = $word:literal),+ $(,)?) => {
        /// Changes of a process to itself, and how it continues to live.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Own { $($(#[$doc])* $name),+ }

        impl Own {
            const ALL: &[(Self, &'static str)] = &[$((Self::$name, $word)),+];
        }
    };
}

words! {
    /// Becomes leader of a session.
    Session = "setsid",
    /// Becomes leader of a process group.
    Group = "setpgid",
    /// Ignores SIGTERM, SIGHUP and SIGINT.
    Ignore = "ignore",
    /// Blocks every signal it can.
    Block = "block",
    /// Becomes the same program with another name and no environment.
    Wipe = "wipe",
    /// Becomes the same program with another name.
    Exec = "exec",
    /// Closes all its descriptors.
    Close = "close",
    /// Leaves the working folder.
    Leave = "chdir",
    /// Takes another process name.
    Rename = "name",
    /// Hides itself from its own user.
    Hide = "undumpable",
    /// Becomes the parent of orphans below it.
    Reaper = "subreaper",
    /// Forks, leads a session, forks again, leaves its folder: a traditional daemon.
    Daemonise = "daemonise",
    /// Waits without an end.
    Stay = "stay",
    /// Forks and ends repeatedly: never the same process for long.
    Chain = "chain",
    /// Replaces each child that ends.
    Respawn = "respawn",
    /// Stops itself with SIGSTOP.
    Stop = "stop",
}

/// How a process may continue to live.
const LAST: [Own; 4] = [Own::Stay, Own::Chain, Own::Respawn, Own::Stop];
/// Changes that may come before.
const OWN: [Own; 12] = [
    Own::Session,
    Own::Group,
    Own::Ignore,
    Own::Block,
    Own::Wipe,
    Own::Exec,
    Own::Close,
    Own::Leave,
    Own::Rename,
    Own::Hide,
    Own::Reaper,
    Own::Daemonise,
];
/// Maximum depth of nested forks.
const DEEPEST: u64 = 3;

impl ProcessShape {
    /// Returns a random shape, small enough for a machine to run many.
    pub fn random(random: &mut Random) -> Self {
        Self::below(random, 0)
    }

    fn below(random: &mut Random, depth: u64) -> Self {
        let mut steps = Vec::new();
        for _ in 0..=random.below(4) {
            let forks = depth < DEEPEST && random.below(3) == 0;
            steps.push(match (forks, random.below(2)) {
                (true, 0) => ProcessStep::Fork(Self::below(random, depth + 1)),
                (true, _) => ProcessStep::DoubleFork(Self::below(random, depth + 1)),
                (false, _) => ProcessStep::Own(*random.pick(&OWN)),
            });
        }
        let last = if random.below(2) == 0 { Own::Stay } else { *random.pick(&LAST) };
        steps.push(ProcessStep::Own(last));
        Self(steps)
    }

    /// Returns the minimum number of its processes, once complete.
    #[must_use]
    pub fn processes(&self) -> usize {
        let forked = self.0.iter().map(|step| match step {
            ProcessStep::Fork(shape) | ProcessStep::DoubleFork(shape) => shape.processes(),
            ProcessStep::Own(_) => 0,
        });
        1 + forked.sum::<usize>()
    }

    /// Returns every word that the text of a shape may contain.
    pub fn words() -> impl Iterator<Item = &'static str> {
        Own::ALL.iter().map(|(_, word)| *word).chain(["fork(", "orphan("])
    }

    /// Parses the text of a shape.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let shape = Self::parse_until(&mut words, None)?;
        words.next().is_none().then_some(shape)
    }

    fn parse_until<'a>(words: &mut impl Iterator<Item = &'a str>, end: Option<&str>) -> Option<Self> {
        let mut steps = Vec::new();
        loop {
            let word = words.next();
            if word == end {
                return Some(Self(steps));
            }
            steps.push(match word? {
                "fork(" => ProcessStep::Fork(Self::parse_until(words, Some(")"))?),
                "orphan(" => ProcessStep::DoubleFork(Self::parse_until(words, Some(")"))?),
                word => ProcessStep::Own(Own::ALL.iter().find(|(_, known)| *known == word)?.0),
            });
        }
    }
}

impl fmt::Display for ProcessShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            match step {
                ProcessStep::Fork(shape) => write!(f, "{blank}fork( {shape} )")?,
                ProcessStep::DoubleFork(shape) => write!(f, "{blank}orphan( {shape} )")?,
                ProcessStep::Own(own) => {
                    let word = Own::ALL.iter().find(|(known, _)| known == own).map_or("", |(_, word)| word);
                    write!(f, "{blank}{word}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_its_text() {
        let mut random = Random::new(7);
        for _ in 0..500 {
            let shape = ProcessShape::random(&mut random);
            assert_eq!(ProcessShape::parse(&shape.to_string()).as_ref(), Some(&shape), "{shape}");
        }
        assert_eq!(ProcessShape::parse("fork( stay"), None);
        assert_eq!(ProcessShape::parse("stay )"), None);
        assert_eq!(ProcessShape::parse("dance"), None);
    }

    #[test]
    fn every_word_comes_up() {
        let mut random = Random::new(1);
        let all: String = (0..200).map(|_| format!("{} ", ProcessShape::random(&mut random))).collect();
        for (_, word) in Own::ALL {
            assert!(all.split_whitespace().any(|seen| seen == *word), "{word} never comes up");
        }
    }
}
