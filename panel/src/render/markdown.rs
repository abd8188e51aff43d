//! Markdown as a tree. HTML in it is text, images are their descriptions, links lead only to the web or to an address of mail.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use subagent_protocol::clean::clean;

use super::{Element, MarkupNode, head};

/// Elements in each other; what is deeper is flat.
const MAX_DEPTH: usize = 48;
/// Bytes of one text that are parsed; what follows is plain.
const MAX_BYTES: usize = 512 * 1024;
/// The longest address of a link.
const MAX_HREF_BYTES: usize = 2048;
/// Where links may lead.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// The blocks of a text.
pub(crate) fn blocks(text: &str) -> Vec<MarkupNode> {
    // Before it is parsed: an escape sequence must not be torn apart by what means something in Markdown.
    let text = clean(text);
    let (parsed, rest) = head(&text, MAX_BYTES);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut tree = ElementTree { open: vec![Element::new("")], flat: 0 };
    Parser::new_ext(parsed, options).for_each(|event| tree.take(event));
    while tree.open.len() > 1 {
        tree.close();
    }
    let mut blocks = tree.open.pop().map(|root| root.children).unwrap_or_default();
    if rest > 0 {
        let mut plain = Element::new("pre");
        plain.children.push(MarkupNode::text(&text[parsed.len()..]));
        blocks.push(MarkupNode::Element(plain));
    }
    blocks
}

/// Elements that are open; the first one is the root.
struct ElementTree {
    open: Vec<Element>,
    /// Elements that were too deep to be opened.
    flat: usize,
}

impl ElementTree {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.push_text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                let mut code = Element::new("code");
                code.children.push(MarkupNode::text(&text));
                self.push(MarkupNode::Element(code));
            }
            Event::SoftBreak => self.push_text("\n"),
            Event::HardBreak => self.push(MarkupNode::Element(Element::new("br"))),
            Event::Rule => self.push(MarkupNode::Element(Element::new("hr"))),
            Event::TaskListMarker(done) => self.push_text(if done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(name) => self.push_text(&format!("[{name}]")),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        if self.flat > 0 || self.open.len() >= MAX_DEPTH {
            self.flat += 1;
            return;
        }
        self.open.push(match tag {
            Tag::Heading { level, .. } => Element::new(match level {
                HeadingLevel::H1 => "h3",
                HeadingLevel::H2 => "h4",
                HeadingLevel::H3 => "h5",
                _ => "h6",
            }),
            Tag::BlockQuote(_) => Element::new("blockquote"),
            Tag::CodeBlock(kind) => {
                let mut block = Element::new("pre");
                if let CodeBlockKind::Fenced(language) = kind {
                    let is_word = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#');
                    block.look = language.chars().take_while(is_word).take(20).collect();
                }
                block
            }
            Tag::List(None) => Element::new("ul"),
            Tag::List(start) => Element { start, ..Element::new("ol") },
            Tag::Item => Element::new("li"),
            Tag::Table(_) => Element::new("table"),
            Tag::TableHead => Element::new("thead"),
            Tag::TableRow => Element::new("tr"),
            Tag::TableCell => Element::new("td"),
            Tag::Emphasis => Element::new("em"),
            Tag::Strong => Element::new("strong"),
            Tag::Strikethrough => Element::new("del"),
            Tag::Link { dest_url, .. } => match href(&dest_url) {
                Some(href) => Element { href: Some(href), ..Element::new("a") },
                None => Element::new("span"),
            },
            Tag::Image { .. } => Element { look: "image".to_owned(), ..Element::new("span") },
            Tag::HtmlBlock => Element::new("pre"),
            _ => Element::new("p"),
        });
    }

    fn end(&mut self, _end: TagEnd) {
        match self.flat {
            0 => self.close(),
            _ => self.flat -= 1,
        }
    }

    fn close(&mut self) {
        if self.open.len() > 1
            && let Some(element) = self.open.pop()
        {
            self.push(MarkupNode::Element(element));
        }
    }

    fn push_text(&mut self, text: &str) {
        let text = MarkupNode::text(text);
        let last = self.open.last_mut().map(|open| &mut open.children);
        match (last, text) {
            (Some(children), MarkupNode::Text(more)) => match children.last_mut() {
                Some(MarkupNode::Text(before)) => before.push_str(&more),
                _ => children.push(MarkupNode::Text(more)),
            },
            (_, text) => self.push(text),
        }
    }

    fn push(&mut self, node: MarkupNode) {
        if let Some(open) = self.open.last_mut() {
            open.children.push(node);
        }
    }
}

/// The address, if a link may lead there.
fn href(url: &str) -> Option<String> {
    let is_plain = url.len() <= MAX_HREF_BYTES && !url.chars().any(|c| c.is_control() || c.is_whitespace());
    let leads =
        SCHEMES.iter().any(|scheme| url.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme)));
    (is_plain && leads && MarkupNode::text(url) == MarkupNode::Text(url.to_owned())).then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn shown(text: &str) -> Value {
        serde_json::to_value(blocks(text)).unwrap()
    }

    #[test]
    fn blocks_and_words_become_elements_of_a_fixed_list() {
        assert_eq!(
            shown("# Hi\n\nit *is* `x<y`\n\n- [x] one\n\n```rust title\nfn f() {}\n```"),
            json!([
                {"t": "h3", "c": ["Hi"]},
                {"t": "p", "c": ["it ", {"t": "em", "c": ["is"]}, " ", {"t": "code", "c": ["x<y"]}]},
                {"t": "ul", "c": [{"t": "li", "c": ["☑ one"]}]},
                {"t": "pre", "k": "rust", "c": ["fn f() {}\n"]},
            ])
        );
        assert_eq!(shown("3. a")[0], json!({"t": "ol", "start": 3, "c": [{"t": "li", "c": ["a"]}]}));
    }

    #[test]
    fn html_is_text_and_an_image_is_its_description() {
        let page =
            shown("<script>alert(1)</script>\n\na <b onclick=x>b</b> ![pic](https://evil.example/x.png)");
        let text = page.to_string();
        assert!(!text.contains("evil.example"), "{text}");
        assert!(
            text.contains("<script>") && text.contains(r#""t":"span","k":"image","c":["pic"]"#),
            "{text}"
        );
    }

    #[test]
    fn links_lead_to_the_web_or_nowhere() {
        for good in ["https://a.example/x?y=1#z", "HTTP://a.example", "mailto:a@b.example"] {
            assert_eq!(shown(&format!("[x]({good})"))[0]["c"][0]["href"], json!(good));
        }
        for bad in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc/passwd",
            "//evil.example",
            "/relative",
            "java&#x09;script:alert(1)",
            "&#106;avascript:alert(1)",
            "blob:x",
            "https://a.example/&#x202e;gpj",
            "",
        ] {
            let page = shown(&format!("[x](<{bad}>)"));
            assert!(!page.to_string().contains("href"), "{bad}: {page}");
        }
        let auto = shown("<javascript:alert(1)> and <https://a.example>").to_string();
        assert!(
            auto.contains(r#""href":"https://a.example""#) && !auto.contains(r#""href":"javascript"#),
            "{auto}"
        );
    }

    #[test]
    fn what_turns_or_hides_text_is_taken_out() {
        let text = shown("a\u{202e}b\u{200b}c\u{7}d `e\u{2066}f` \u{1b}[32mgreen\u{1b}[0m").to_string();
        assert!(text.contains("abcd ") && text.contains("ef") && text.contains(" green\""), "{text}");
    }

    #[test]
    fn depth_and_size_have_limits() {
        let deep = shown(&"> ".repeat(2000)).to_string();
        assert!(deep.matches("blockquote").count() < MAX_DEPTH);
        let long = shown(&"*a* ".repeat(MAX_BYTES / 2));
        assert_eq!(long.as_array().unwrap().last().unwrap()["t"], "pre");
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_a_tree(text in r"[\PC\n]{0,300}") {
            fn depth(node: &MarkupNode) -> usize {
                match node {
                    MarkupNode::Text(_) => 0,
                    MarkupNode::Element(element) => 1 + element.children.iter().map(depth).max().unwrap_or(0),
                }
            }
            prop_assert!(blocks(&text).iter().all(|block| depth(block) <= MAX_DEPTH));
        }
    }
}
