//! The full-screen view: on the left the steps, on the right what there is to see at one of them.
//!
//! A value that keys change and that can be drawn; it fetches nothing. Whoever runs it asks [`View::wanted`] what to
//! show beside the step, and gives it to [`View::show`]. No colours: what is chosen is reversed, headings are bold.

use rappel::types::agents::replay::Step;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders, List, ListState, Paragraph, Wrap};

use super::{lines, since};
use crate::output::clean;

/// Under this width the steps stand above, not beside.
const NARROW: u16 = 72;
/// Under this height there is no room for both.
const LOW: u16 = 9;
const KEYS: &str = "←→ step  g G ends  a agents  m memory  f files  / n N search  ? keys  q exit";
const KEYS_SHORT: &str = "←→ g G a m f / n N ? q";
const KEYS_TOLD: &str = "\
→ ↓ l j space   the next step
← ↑ h k         the step before
g G             the first step, the last
a               the agents at the step
m               what the session knew after it
f               the files at it
                each again: the step itself
PgDn PgUp J K   scroll beside the steps
/               search in the steps
n N             the next found, the one before
? or any key    leave this page
q Esc           exit";

/// What stands beside the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panel {
    /// The step in full.
    Step,
    /// The agents at it.
    Agents,
    /// What the session knew after it.
    Memory,
    /// The files at it.
    Files,
}

/// What a key leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// The view goes on.
    Stay,
    /// It is over.
    Leave,
}

/// The view.
pub struct View {
    title: String,
    steps: Vec<Step>,
    titles: Vec<String>,
    at: usize,
    panel: Panel,
    text: String,
    shown: Option<(Panel, usize)>,
    scroll: u16,
    /// What is being typed after `/`.
    typing: Option<String>,
    /// What was looked for last.
    needle: String,
    message: String,
    /// The keys are told beside the steps.
    keys: bool,
}

impl View {
    /// The view of these steps, at the first.
    pub fn new(title: String, steps: Vec<Step>) -> Self {
        let width = steps.len().to_string().len();
        let line = |step: &Step| {
            format!("{:>width$} {} {}", step.number, since(&steps, step.at), clean(&step.title))
        };
        Self {
            title,
            titles: steps.iter().map(line).collect(),
            steps,
            at: 0,
            panel: Panel::Step,
            text: String::new(),
            shown: None,
            scroll: 0,
            typing: None,
            needle: String::new(),
            message: String::new(),
            keys: false,
        }
    }

    /// What is to be shown beside the step with this number, if that is not here yet.
    pub fn wanted(&self) -> Option<(Panel, usize)> {
        let wanted = (self.panel, self.at + 1);
        (!self.steps.is_empty() && self.shown != Some(wanted)).then_some(wanted)
    }

    /// Shows that text.
    pub fn show(&mut self, of: (Panel, usize), text: &str) {
        self.text = lines(text);
        self.shown = Some(of);
        self.scroll = 0;
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Reaction {
        // As a shell takes them, whatever is being typed.
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Reaction::Leave;
        }
        if self.typing.is_some() {
            self.type_key(key.code);
            return Reaction::Stay;
        }
        self.message.clear();
        if std::mem::take(&mut self.keys) {
            return Reaction::Stay;
        }
        let last = self.steps.len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Reaction::Leave,
            KeyCode::Down | KeyCode::Right | KeyCode::Char('j' | 'l' | ' ') | KeyCode::Enter => {
                self.go((self.at + 1).min(last));
            }
            KeyCode::Up | KeyCode::Left | KeyCode::Char('k' | 'h') | KeyCode::Backspace => {
                self.go(self.at.saturating_sub(1));
            }
            KeyCode::Char('g') | KeyCode::Home => self.go(0),
            KeyCode::Char('G') | KeyCode::End => self.go(last),
            KeyCode::Char('a') => self.turn_to(Panel::Agents),
            KeyCode::Char('m') => self.turn_to(Panel::Memory),
            KeyCode::Char('f') => self.turn_to(Panel::Files),
            KeyCode::PageDown | KeyCode::Char('J') => self.scroll = self.scroll.saturating_add(10),
            KeyCode::PageUp | KeyCode::Char('K') => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Char('/') => self.typing = Some(String::new()),
            KeyCode::Char('n') => self.find(true),
            KeyCode::Char('N') => self.find(false),
            KeyCode::Char('?') => self.keys = true,
            _ => {}
        }
        Reaction::Stay
    }

    fn type_key(&mut self, code: KeyCode) {
        let Some(typed) = &mut self.typing else { return };
        match code {
            KeyCode::Esc => self.typing = None,
            KeyCode::Backspace => _ = typed.pop(),
            KeyCode::Char(letter) => typed.push(letter),
            KeyCode::Enter => {
                self.needle = typed.to_lowercase();
                self.typing = None;
                self.find(true);
            }
            _ => {}
        }
    }

    fn go(&mut self, at: usize) {
        self.at = at;
    }

    /// A panel's key again leads back to the step.
    fn turn_to(&mut self, panel: Panel) {
        self.panel = if self.panel == panel { Panel::Step } else { panel };
    }

    /// Goes to the next step that says what is looked for, or the one before, around the end.
    fn find(&mut self, forward: bool) {
        let count = self.steps.len();
        if self.needle.is_empty() || count == 0 {
            return;
        }
        let says = |step: &Step| {
            let has = |text: &str| text.to_lowercase().contains(&self.needle);
            has(&step.title) || has(&step.detail) || has(&step.kind)
        };
        let places =
            (1..=count).map(|far| if forward { self.at + far } else { self.at + count - far });
        let found = places.map(|place| place % count).find(|place| says(&self.steps[*place]));
        match found {
            Some(place) => self.go(place),
            None => self.message = format!("no step says {:?}", self.needle),
        }
    }

    /// Draws it.
    pub fn draw(&mut self, frame: &mut Frame) {
        let rows =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]);
        let [head, body, foot] = rows.areas(frame.area());
        let place = format!(" {}/{}", (self.at + 1).min(self.steps.len()), self.steps.len());
        let room = usize::from(head.width).saturating_sub(place.len());
        let title = format!("{}{place}", super::super::shorten(&self.title, room.max(1)));
        frame.render_widget(Paragraph::new(title).style(bold()), head);
        frame.render_widget(Paragraph::new(self.foot(foot.width)), foot);

        let (list, panel) = split(body);
        if let Some(list) = list {
            self.draw_list(frame, list);
        }
        self.draw_panel(frame, panel, list.is_some_and(|list| list.y == panel.y));
    }

    fn foot(&self, width: u16) -> String {
        match &self.typing {
            Some(typed) => format!("/{typed}▏"),
            None if !self.message.is_empty() => self.message.clone(),
            None if usize::from(width) < KEYS.chars().count() => KEYS_SHORT.into(),
            None => KEYS.into(),
        }
    }

    /// Only the steps around the one that is looked at are drawn, however many there are.
    fn draw_list(&self, frame: &mut Frame, area: Rect) {
        let height = usize::from(area.height);
        let first = (self.at + 1 + height / 2).min(self.titles.len()).saturating_sub(height);
        let visible = self.titles.iter().skip(first).take(height).map(String::as_str);
        let list =
            List::new(visible).highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = ListState::default().with_selected(Some(self.at - first.min(self.at)));
        frame.render_stateful_widget(list, area, &mut state);
    }

    fn draw_panel(&mut self, frame: &mut Frame, area: Rect, beside: bool) {
        let title = match self.panel {
            _ if self.keys => "Keys",
            Panel::Step => "Step",
            Panel::Agents => "Agents",
            Panel::Memory => "Memory",
            Panel::Files => "Files",
        };
        let border = if beside { Borders::LEFT } else { Borders::TOP };
        let block = Block::new().borders(border);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let mut text = Text::from(Line::styled(title, bold()));
        if self.keys {
            text.extend(KEYS_TOLD.lines().map(Line::from));
        } else if self.steps.is_empty() {
            text.push_line("Nothing was recorded, and no file changed.");
        } else {
            text.extend(self.text.lines().map(Line::from));
        }
        // As far as to the last line, not beyond. Where lines are wrapped there are more of them.
        let width = usize::from(inner.width).max(1);
        let tall: usize = text.lines.iter().map(|line| line.width().div_ceil(width).max(1)).sum();
        let most = tall.saturating_sub(usize::from(inner.height) / 2);
        self.scroll = self.scroll.min(u16::try_from(most).unwrap_or(u16::MAX));
        let paragraph = Paragraph::new(text).wrap(Wrap { trim: false }).scroll((self.scroll, 0));
        frame.render_widget(paragraph, inner);
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Where the steps and the panel go: beside each other, above each other, or the panel alone.
fn split(body: Rect) -> (Option<Rect>, Rect) {
    if body.height < LOW {
        return (None, body);
    }
    if body.width < NARROW {
        let rows = Layout::vertical([Constraint::Percentage(40), Constraint::Percentage(60)]);
        let [list, panel] = rows.areas(body);
        return (Some(list), panel);
    }
    let columns = Layout::horizontal([Constraint::Percentage(45), Constraint::Percentage(55)]);
    let [list, panel] = columns.areas(body);
    (Some(list), panel)
}

#[cfg(test)]
mod tests {
    use rappel_types::Timestamp;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn steps(count: usize) -> Vec<Step> {
        let step = |number: usize| Step {
            number,
            at: Timestamp::from_millis(1_763_217_022_000 + number as i64 * 1_000),
            event: number as u64,
            kind: if number.is_multiple_of(2) { "note" } else { "thought" }.into(),
            id: None,
            checkpoint: None,
            title: format!("note: number {number}"),
            detail: format!("the whole of number {number}\nand a second line\u{1b}[2J"),
        };
        (1..=count).map(step).collect()
    }

    fn view(count: usize) -> View {
        View::new("Replay, read-only: chk_1".into(), steps(count))
    }

    /// What a terminal of this size shows, after whatever the view wanted was given to it.
    fn screen(view: &mut View, width: u16, height: u16) -> String {
        if let Some((panel, number)) = view.wanted() {
            let step = view.steps[view.at].detail.clone();
            let text = match panel {
                Panel::Step => step,
                other => format!("{other:?} at {number}"),
            };
            view.show((panel, number), &text);
        }
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        if width == 0 {
            return String::new();
        }
        let shown = terminal.backend().to_string();
        shown.lines().map(|line| line.trim_matches('"').trim_end().to_owned() + "\n").collect()
    }

    fn press(view: &mut View, keys: &[KeyCode]) -> Reaction {
        let mut last = Reaction::Stay;
        for key in keys {
            last = view.key(KeyEvent::new(*key, KeyModifiers::NONE));
        }
        last
    }

    fn write(text: &str) -> Vec<KeyCode> {
        text.chars().map(KeyCode::Char).collect()
    }

    fn at(view: &View) -> usize {
        view.steps[view.at].number
    }

    #[test]
    fn steps_stand_beside_what_they_say() {
        insta::assert_snapshot!(screen(&mut view(30), 90, 12));
    }

    #[test]
    fn on_a_narrow_terminal_they_stand_above_it() {
        let mut view = view(30);
        press(&mut view, &[KeyCode::End]);
        insta::assert_snapshot!(screen(&mut view, 40, 16));
    }

    #[test]
    fn any_size_can_be_drawn() {
        for count in [0, 1, 500] {
            let mut view = view(count);
            press(&mut view, &[KeyCode::End, KeyCode::PageDown]);
            for width in [0, 1, 2, 10, 71, 72, 300] {
                for height in [0, 1, 2, 3, 8, 11, 60] {
                    screen(&mut view, width, height);
                }
            }
        }
    }

    #[test]
    fn keys_step_forward_and_back_and_stop_at_the_ends() {
        let mut view = view(5);
        press(&mut view, &[KeyCode::Up]);
        assert_eq!(at(&view), 1);
        for (key, number) in [
            (KeyCode::Down, 2),
            (KeyCode::Right, 3),
            (KeyCode::Char('j'), 4),
            (KeyCode::Char(' '), 5),
            (KeyCode::Enter, 5),
            (KeyCode::Left, 4),
            (KeyCode::Char('k'), 3),
            (KeyCode::Char('G'), 5),
            (KeyCode::Char('g'), 1),
        ] {
            press(&mut view, &[key]);
            assert_eq!(at(&view), number, "{key:?}");
        }
    }

    #[test]
    fn panels_follow_the_step_and_their_key_leads_back() {
        let mut view = view(5);
        press(&mut view, &[KeyCode::Char('m')]);
        assert_eq!(view.wanted(), Some((Panel::Memory, 1)));
        assert!(screen(&mut view, 90, 12).contains("Memory at 1"));
        assert_eq!(view.wanted(), None, "what is here is not fetched again");
        press(&mut view, &[KeyCode::Down]);
        assert_eq!(view.wanted(), Some((Panel::Memory, 2)));
        press(&mut view, &[KeyCode::Char('f')]);
        assert_eq!(view.wanted(), Some((Panel::Files, 2)));
        press(&mut view, &[KeyCode::Char('a')]);
        assert_eq!(view.wanted(), Some((Panel::Agents, 2)));
        press(&mut view, &[KeyCode::Char('a')]);
        assert_eq!(view.wanted(), Some((Panel::Step, 2)));
    }

    #[test]
    fn a_search_goes_to_the_next_that_says_it_around_the_end() {
        let mut view = view(30);
        press(&mut view, &write("/NUMBER 2"));
        assert!(screen(&mut view, 90, 12).contains("/NUMBER 2"));
        press(&mut view, &[KeyCode::Enter]);
        assert_eq!(at(&view), 2);
        press(&mut view, &[KeyCode::Char('n')]);
        assert_eq!(at(&view), 20);
        press(&mut view, &[KeyCode::Char('N'), KeyCode::Char('N')]);
        assert_eq!(at(&view), 29);
        press(&mut view, &write("/nowhere"));
        press(&mut view, &[KeyCode::Enter]);
        assert_eq!(at(&view), 29);
        assert!(screen(&mut view, 90, 12).contains("no step says \"nowhere\""));
        assert_eq!(
            press(&mut view, &[KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Esc]),
            Reaction::Stay
        );
    }

    #[test]
    fn the_keys_are_told_until_one_is_pressed() {
        let mut view = view(5);
        press(&mut view, &[KeyCode::Char('?')]);
        assert!(screen(&mut view, 90, 16).contains("n N             the next found"));
        assert_eq!(press(&mut view, &[KeyCode::Char('q')]), Reaction::Stay);
        assert!(screen(&mut view, 90, 16).contains("the whole of number 1"));
    }

    #[test]
    fn it_is_left_by_q_escape_control_c_and_control_d() {
        assert_eq!(press(&mut view(2), &[KeyCode::Char('q')]), Reaction::Leave);
        assert_eq!(press(&mut view(2), &[KeyCode::Esc]), Reaction::Leave);
        for letter in ['c', 'd'] {
            let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
            let mut view = view(0);
            press(&mut view, &[KeyCode::Char('/')]);
            assert_eq!(view.key(key), Reaction::Leave);
        }
    }

    #[test]
    fn a_long_text_is_scrolled_to_its_end_and_not_beyond() {
        let mut view = view(1);
        view.show((Panel::Step, 1), &"a line\n".repeat(100));
        press(&mut view, &[KeyCode::PageDown; 30]);
        assert!(screen(&mut view, 90, 12).contains("a line"));
        press(&mut view, &[KeyCode::PageUp; 30]);
        assert_eq!(view.scroll, 0);
    }
}
