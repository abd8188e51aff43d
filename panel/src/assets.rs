//! The files of the page, as they are in `web/`.

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

/// All files.
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
    "/words.js" "words.js" "text/javascript; charset=utf-8",
};

/// The file at a path.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
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
        let index = find("/").unwrap().text;
        assert_eq!(index.matches("<script").count(), 1, "one script");
        assert!(index.contains(r#"<script type="module" src="/app.js"></script>"#));
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
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(lines <= 3000 && bytes <= 200_000, "{lines} lines, {bytes} bytes");
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
