//! A real Chromium, driven by the scripts in `tests/browser`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::harness::{Running, TestSandbox, say};

/// Programs that are Chromium.
const CHROMIUM: [&str; 4] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/snap/bin/chromium"];

/// Chromium, and the folder with what drives it.
#[derive(Debug)]
pub struct Browser {
    chromium: &'static str,
    driver: PathBuf,
}

impl Browser {
    /// Finds both. Says loudly if one is missing.
    ///
    /// # Panics
    ///
    /// If one is missing with `SUBAGENT_REQUIRE_BROWSER`.
    #[must_use]
    pub fn find() -> Option<Self> {
        let driver =
            std::env::var_os("SUBAGENT_BROWSER").map_or_else(|| root().join("target/browser"), PathBuf::from);
        let chromium = CHROMIUM.into_iter().find(|path| Path::new(path).exists());
        let found = chromium.zip(driver.join("node_modules").exists().then_some(driver));
        if found.is_none() {
            let missing =
                "Chromium, or what tests/browser/install installs, is missing: the page is not tested";
            assert!(std::env::var_os("SUBAGENT_REQUIRE_BROWSER").is_none(), "{missing}");
            say(&format!("SKIPPED: {missing}"));
        }
        found.map(|(chromium, driver)| Self { chromium, driver })
    }

    /// The folder with what drives it.
    #[must_use]
    pub fn driver(&self) -> &Path {
        &self.driver
    }

    /// Starts a script with what to do, the link of a panel, Chromium and more.
    ///
    /// # Panics
    ///
    /// If the folder is not plain text.
    #[must_use]
    pub fn start(
        &self,
        sandbox: &TestSandbox,
        script: &str,
        [name, link]: &[&str; 2],
        more: &[&str],
        deadline: Duration,
    ) -> Running {
        let script = root().join("tests/browser").join(script);
        let words = [script.to_str().unwrap(), name, link, self.chromium];
        // Modules are found from the folder in which it runs.
        let command = sandbox.command("node").args(words).args(more);
        command.cwd(&self.driver).deadline(deadline).spawn()
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/")).to_owned()
}
