//! Deaths of a daemon: half of them at steps of its work, half at random moments.

use std::path::PathBuf;

use subagent_tests::harness::{Random, TestSandbox, times};

pub(crate) struct DaemonDeath {
    number: usize,
    /// The step at which the daemon dies; `None`: it is killed at a random moment.
    pub(crate) step: Option<&'static str>,
    /// The seed of its random choices.
    pub(crate) seed: u64,
}

impl DaemonDeath {
    /// Returns this many in an ordinary run; every second one is at one of these steps.
    pub(crate) fn all(count: usize, steps: &[&'static str]) -> Vec<Self> {
        let mut random = Random::announced();
        let step = |number: usize| (number % 2 == 1).then(|| steps[number / 2 % steps.len()]);
        let death = |number| Self { number, step: step(number), seed: random.number() };
        (0..times(count)).map(death).collect()
    }

    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.number, self.step.unwrap_or("random"))
    }

    /// Makes the daemon of this sandbox die at the step, once. The returned file exists afterwards.
    pub(crate) fn arm(&self, sandbox: &mut TestSandbox) -> PathBuf {
        let once = sandbox.file("reached");
        if let Some(step) = self.step {
            sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{step}=abort@1"));
            sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
        }
        once
    }
}
