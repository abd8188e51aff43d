//! The files of the page, as they are in `web/`. The page names the hash of each file that it loads.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha384};

/// A file: its path, its kind, its text.
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! assets {
    ($($path:literal $name:literal $kind:literal),* $(,)?) => {
        &[$(Asset { path: $path, kind: $kind, text: include_str!(concat!("../web/", $name)) }),*]
    };
}

pub(crate) const ASSETS: &[Asset] = assets! {
    "/" "index.html" "text/html; charset=utf-8",
    "/style.css" "style.css" "text/css; charset=utf-8",
    "/app.js" "app.js" "text/javascript; charset=utf-8",
    "/api.js" "api.js" "text/javascript; charset=utf-8",
    "/dom.js" "dom.js" "text/javascript; charset=utf-8",
    "/inbox.js" "inbox.js" "text/javascript; charset=utf-8",
    "/list.js" "list.js" "text/javascript; charset=utf-8",
    "/worker.js" "worker.js" "text/javascript; charset=utf-8",
    "/story.js" "story.js" "text/javascript; charset=utf-8",
    "/tabs.js" "tabs.js" "text/javascript; charset=utf-8",
    "/compose.js" "compose.js" "text/javascript; charset=utf-8",
    "/start.js" "start.js" "text/javascript; charset=utf-8",
    "/state.js" "state.js" "text/javascript; charset=utf-8",
    "/sums.js" "sums.js" "text/javascript; charset=utf-8",
    "/words.js" "words.js" "text/javascript; charset=utf-8",
};

/// The media type and the text of the file at a path.
pub(crate) fn find(path: &str) -> Option<(&'static str, &'static str)> {
    let asset = ASSETS.iter().find(|asset| asset.path == path)?;
    Some((asset.kind, if path == "/" { &INDEX } else { asset.text }))
}

/// A hash of all files. A page that has another one is of another version of the panel.
pub(crate) static PAGE: LazyLock<String> = LazyLock::new(|| {
    let texts = ASSETS.iter().fold(Sha384::new(), |texts, asset| texts.chain_update(asset.text));
    STANDARD.encode(texts.finalize())
});

/// The page. A browser runs a file only if its hash is the one here (Subresource Integrity), and fetches all of them at
/// once instead of one import after the other.
static INDEX: LazyLock<String> = LazyLock::new(|| {
    let mut index = String::new();
    for line in include_str!("../web/index.html").lines() {
        let loaded = ASSETS.iter().find(|asset| asset.path != "/" && line.contains(asset.path));
        match loaded {
            None => {
                let page = format!("name=\"page\" content=\"{}\"", *PAGE);
                index.push_str(&line.replace("name=\"page\" content=\"\"", &page));
            }
            Some(asset) => {
                let address = format!("\"{}\"", asset.path);
                index.push_str(&line.replace(&address, &format!("{address} integrity=\"{}\"", hash(asset))));
                if asset.path == "/app.js" {
                    index.extend(modules().map(|module| {
                        let (path, hash) = (module.path, hash(module));
                        format!("\n<link rel=\"modulepreload\" href=\"{path}\" integrity=\"{hash}\">")
                    }));
                }
            }
        }
        index.push('\n');
    }
    index
});

/// The modules that `app.js` imports, directly or not.
fn modules() -> impl Iterator<Item = &'static Asset> {
    ASSETS.iter().filter(|asset| asset.kind.starts_with("text/javascript") && asset.path != "/app.js")
}

fn hash(asset: &Asset) -> String {
    format!("sha384-{}", STANDARD.encode(Sha384::digest(asset.text)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// What makes code or markup of text. A page that has none of it cannot run what an agent wrote.
    const FORBIDDEN: &[&str] = &[
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
        "createContextualFragment",
        "srcdoc",
        "setHTMLUnsafe",
        "javascript:",
        "onclick=",
        "style=",
        "<style",
        "localStorage",
        "document.cookie",
        "EventSource",
        "WebSocket",
        "http://",
        "https://",
    ];

    #[test]
    fn the_page_makes_nodes_and_no_markup() {
        for asset in ASSETS {
            for word in FORBIDDEN {
                assert!(!asset.text.contains(word), "web{} has {word}", asset.path);
            }
        }
        let (_, index) = find("/").unwrap();
        assert_eq!(index.matches("<script").count(), 1, "one script");
        assert!(index.contains(r#"<script type="module" src="/app.js" integrity="sha384-"#), "{index}");
    }

    #[test]
    fn the_page_names_the_hash_of_every_file() {
        let (_, index) = find("/").unwrap();
        for asset in ASSETS.iter().filter(|asset| asset.path != "/") {
            let named = format!("\"{}\" integrity=\"{}\"", asset.path, hash(asset));
            assert_eq!(index.matches(&named).count(), 1, "{} in {index}", asset.path);
        }
        assert_eq!(index.matches("integrity=").count(), ASSETS.len() - 1);
    }

    #[test]
    fn the_page_has_the_hash_of_all_files() {
        let (_, index) = find("/").unwrap();
        assert_eq!(index.matches(&format!("<meta name=\"page\" content=\"{}\">", *PAGE)).count(), 1);
    }

    #[test]
    fn every_file_is_embedded_and_the_page_is_small() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<_> = files
            .map(|name| name.into_string().unwrap())
            .filter(|name| !name.ends_with(".test.mjs"))
            .collect();
        let embedded = ASSETS.iter().map(|asset| asset.path.trim_start_matches('/'));
        let mut embedded: Vec<_> =
            embedded.map(|name| if name.is_empty() { "index.html" } else { name }.to_owned()).collect();
        files.sort();
        embedded.sort();
        assert_eq!(files, embedded);
        let lines: usize = ASSETS.iter().map(|asset| asset.text.lines().count()).sum();
        let bytes: usize = ASSETS.iter().map(|asset| compressed(asset.text)).sum();
        assert!(lines <= 3000 && bytes <= 60_000, "{lines} lines, {bytes} bytes");
    }

    /// Returns the size of a text after gzip.
    fn compressed(text: &str) -> usize {
        let mut gzip = Command::new("gzip");
        let mut gzip =
            gzip.args(["-9", "--stdout"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The output of a file of the page is smaller than a pipe holds.
        gzip.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        gzip.wait_with_output().unwrap().stdout.len()
    }

    #[test]
    fn what_a_module_imports_is_there() {
        for asset in ASSETS.iter().filter(|asset| asset.kind.starts_with("text/javascript")) {
            for import in asset.text.split("from '.").skip(1) {
                let path = import.split('\'').next().unwrap();
                assert!(find(path).is_some(), "web{} imports .{path}", asset.path);
            }
        }
    }
}
