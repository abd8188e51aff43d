//! Draws the output of commands as an animated SVG: each command appears, then its output. Without
//! animation, all of it is visible. The colors are readable on a light and on a dark page.

use std::fmt::Write as _;

/// Width and height of a character cell, and the space around the text.
const CELL: f64 = 8.4;
const LINE: f64 = 19.0;
const MARGIN: f64 = 18.0;
const TITLE_BAR: f64 = 34.0;

/// Seconds before a command appears, and from there to its output.
const PAUSE: f64 = 1.6;
const RUNS: f64 = 0.7;

const STYLE: &str =
    "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}
.s{opacity:0;animation:show .01s linear forwards}
@keyframes show{to{opacity:1}}
@media (prefers-reduced-motion:reduce){.s{animation:none;opacity:1}}
@media print{.s{animation:none;opacity:1}}";

const TEXT: &str = "#e6edf3";
const DIM: &str = "#8b949e";
const PROMPT: &str = "#7ee787";

/// Colors 0 to 15 of the terminal.
const COLORS: [&str; 16] = [
    "#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#e6edf3", "#8b949e",
    "#ffa198", "#aff5b4", "#f2cc60", "#a5d6ff", "#e2c5ff", "#b3f0ff", "#ffffff",
];

/// A command and the lines that it printed.
pub(super) struct Step {
    pub(super) command: String,
    pub(super) lines: Vec<Line>,
}

/// A line as pieces of one style, each with its column.
pub(super) struct Line(Vec<(usize, SvgStyle, String)>);

#[derive(Clone, PartialEq, Eq)]
pub(super) struct SvgStyle {
    color: &'static str,
    bold: bool,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, _, text)| text.trim().is_empty())
    }

    fn text(&self) -> String {
        self.0.iter().map(|(_, _, text)| text.as_str()).collect::<String>().trim_end().to_owned()
    }
}

/// Returns a row of a screen.
pub(super) fn line(screen: &vt100::Screen, row: u16, columns: u16) -> Line {
    let mut pieces: Vec<(usize, SvgStyle, String)> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else {
            continue;
        };
        let color = match cell.fgcolor() {
            _ if cell.dim() => DIM,
            vt100::Color::Idx(color) => COLORS.get(usize::from(color)).copied().unwrap_or(TEXT),
            _ => TEXT,
        };
        let style = SvgStyle { color, bold: cell.bold() };
        let text = if cell.has_contents() { cell.contents() } else { " " };
        match pieces.last_mut().filter(|(_, last, _)| *last == style) {
            Some((_, _, piece)) => piece.push_str(text),
            None => pieces.push((usize::from(column), style, text.to_owned())),
        }
    }
    pieces.iter_mut().for_each(|(_, _, text)| *text = without_ids(text));
    Line(pieces)
}

/// Replaces the random part of ids and commits by fixed characters.
fn without_ids(text: &str) -> String {
    const FIXED: &str = "3f9c2d81e07a";
    let parts = text.split_inclusive(|char: char| !char.is_ascii_alphanumeric());
    let fixed = parts.map(|part| {
        let word = part.trim_end_matches(|char: char| !char.is_ascii_alphanumeric());
        // Ids and commits have 10 characters, the folder of a repository's worktrees 8.
        let random = matches!(word.len(), 8 | 10)
            && word.chars().all(|char| char.is_ascii_digit() || ('a'..='f').contains(&char))
            && word.chars().any(|char| char.is_ascii_digit());
        if random { format!("{}{}", &FIXED[..word.len()], &part[word.len()..]) } else { part.to_owned() }
    });
    fixed.collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the SVG. Its description is the transcript.
pub(super) fn draw(steps: &[Step], columns: u16) -> String {
    let prompt = SvgStyle { color: PROMPT, bold: true };
    let mut transcript = String::new();
    let mut body = String::new();
    let (mut row, mut at) = (0, 0.4);
    for step in steps {
        let command = SvgStyle { color: TEXT, bold: true };
        let typed = Line(vec![(0, prompt.clone(), "$".to_owned()), (2, command, step.command.clone())]);
        let _ = writeln!(transcript, "$ {}", step.command);
        group(&mut body, at, std::slice::from_ref(&typed), &mut row);
        at += RUNS;
        step.lines.iter().for_each(|line| transcript.push_str(&format!("{}\n", line.text())));
        group(&mut body, at, &step.lines, &mut row);
        at += PAUSE;
        transcript.push('\n');
        row += 1;
    }
    let width = f64::from(columns) * CELL + 2.0 * MARGIN;
    let height = TITLE_BAR + f64::from(row) * LINE + MARGIN / 2.0;
    let dots: String = [("#ff5f57", 20), ("#febc2e", 40), ("#28c840", 60)]
        .iter()
        .map(|(color, x)| format!("<circle cx=\"{x}\" cy=\"17\" r=\"6\" fill=\"{color}\"/>"))
        .collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\">\n<title>The first steps at a terminal</title>\n\
         <desc>{}</desc>\n<style>{STYLE}</style>\n\
         <rect x=\".5\" y=\".5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\" fill=\"#0d1117\" stroke=\"#30363d\"/>\n\
         {dots}\n{body}</svg>\n",
        escaped(transcript.trim_end()),
        width - 1.0,
        height - 1.0,
    )
}

/// Draws lines that appear together after this many seconds.
fn group(body: &mut String, at: f64, lines: &[Line], row: &mut u16) {
    let _ = writeln!(body, "<g class=\"s\" style=\"animation-delay:{at:.1}s\">");
    for line in lines {
        let y = TITLE_BAR + f64::from(*row) * LINE + 14.0;
        for (column, style, text) in &line.0 {
            let start = text.len() - text.trim_start().len();
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let x = MARGIN + (*column + start) as f64 * CELL;
            let length = text.chars().count() as f64 * CELL;
            let bold = if style.bold { " font-weight=\"bold\"" } else { "" };
            let _ = writeln!(
                body,
                "<text x=\"{x:.1}\" y=\"{y:.0}\" fill=\"{}\"{bold} textLength=\"{length:.1}\" \
                 lengthAdjust=\"spacingAndGlyphs\">{}</text>",
                style.color,
                escaped(text),
            );
        }
        *row += 1;
    }
    body.push_str("</g>\n");
}

/// Returns each drawn text with its height and color.
pub(super) fn visible(drawing: &str) -> Vec<String> {
    let value = |element: &str, key: &str| {
        let rest = element.split_once(&format!(" {key}=\"")).map_or("", |(_, rest)| rest);
        rest.split_once('"').map_or("", |(value, _)| value).to_owned()
    };
    let drawn = |line: &str| {
        let (element, text) = line.strip_prefix("<text")?.strip_suffix("</text>")?.split_once('>')?;
        Some(format!("{} {} {text}", value(element, "y"), value(element, "fill")))
    };
    drawing.lines().filter_map(drawn).collect()
}

/// Returns the transcript in the description of a drawing.
pub(super) fn transcript(drawing: &str) -> String {
    let inside = drawing.split_once("<desc>").and_then(|(_, rest)| rest.split_once("</desc>"));
    let text = inside.map_or("", |(text, _)| text);
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}
