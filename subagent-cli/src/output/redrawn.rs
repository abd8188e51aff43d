//! Lines on a terminal that are drawn again in their place.

use unicode_width::UnicodeWidthChar as _;

use super::terminal;

/// What was drawn last.
#[derive(Debug, Default)]
pub struct Redrawn {
    lines: usize,
}

impl Redrawn {
    /// A place on stdout, if that is a terminal that can do it.
    #[must_use]
    pub fn on_stdout() -> Option<Self> {
        terminal::can_redraw_stdout().then(Self::default)
    }

    /// What puts these lines in the place of the last ones. The text is harmless already.
    #[must_use]
    pub fn draw(&mut self, text: &str) -> String {
        let (width, height) = terminal::stdout_size();
        self.draw_within(text, width, height)
    }

    fn draw_within(&mut self, text: &str, width: usize, height: usize) -> String {
        // The last column stays free: some terminals go to the next line with it. So does the last line, for the cursor.
        let (width, most) = (width.saturating_sub(1), height.saturating_sub(1).max(2));
        let all = text.lines().count();
        let kept = if all > most { most - 1 } else { all };
        let mut lines: Vec<String> = text.lines().take(kept).map(|line| cut(line, width)).collect();
        if all > kept {
            lines.push(cut(&format!("… {} more lines", all - kept), width));
        }
        let back = if self.lines > 0 { format!("\u{1b}[{}F\u{1b}[J", self.lines) } else { String::new() };
        self.lines = lines.len();
        lines.into_iter().fold(back, |text, line| text + &line + "\n")
    }
}

/// The beginning of a line that fits, with a sign where something is missing.
fn cut(line: &str, width: usize) -> String {
    let columns = |c: char| c.width().unwrap_or(0);
    if line.chars().map(columns).sum::<usize>() <= width {
        return line.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let rest = left.checked_sub(columns(*c));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    line.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_in_the_place_of_those_before() {
        let mut screen = Redrawn::default();
        assert_eq!(screen.draw_within("a\n└─ b", 80, 24), "a\n└─ b\n");
        assert_eq!(screen.draw_within("c", 80, 24), "\u{1b}[2F\u{1b}[Jc\n");
        assert_eq!(screen.draw_within("d", 80, 24), "\u{1b}[1F\u{1b}[Jd\n");
    }

    #[test]
    fn what_does_not_fit_is_cut_so_that_no_line_takes_two() {
        let mut screen = Redrawn::default();
        assert_eq!(screen.draw_within("  └─ abcdef", 8, 24), "  └─ a…\n");
        assert_eq!(screen.draw_within("日本語日本語", 8, 24), "\u{1b}[1F\u{1b}[J日本語…\n");
        let many: Vec<String> = (0..9).map(|line| line.to_string()).collect();
        assert_eq!(Redrawn::default().draw_within(&many.join("\n"), 80, 5), "0\n1\n2\n… 6 more lines\n");
    }
}
