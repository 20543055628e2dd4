//! A brief as text that fits.
//!
//! Everything is told in whole if that fits. Otherwise every open and every ruled-out hypothesis keeps a line with its id
//! and its first 60 characters, and what is left of the room is given out by importance; headings count what is not
//! told, and the last line names the command that tells it.
//!
//! Not guaranteed: those lines alone may be longer than the room. Then they are printed all the same, because a
//! hypothesis that an agent does not know to be ruled out is tried again; the last line says how much too long it is.

use super::{Brief, Called, Clash, Guess, Weighed};
use crate::agents::contradiction::Rule;
use crate::agents::state::{Confidence, ExecutedCommand, HypothesisStatus, Verification};
use crate::time::age;

/// What stays of a hypothesis that is not told in whole.
const SHORT: usize = 60;
/// What stays of any other text.
const MEDIUM: usize = 240;
/// The goal, where even the headings do not fit.
const GOAL: usize = 160;
/// Lines of a command's output.
const OUTPUT_LINES: usize = 3;

/// One thing to tell. It is written when somebody asks: of ten thousand hypotheses most are never told in whole.
struct Item<'b> {
    write: Box<dyn Fn(Form) -> String + 'b>,
    /// Never left out: at least its short form is told.
    stays: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Short,
    Medium,
    Whole,
}

/// An item as it is told.
struct Told {
    form: Form,
    text: String,
}

struct Section<'b> {
    title: &'static str,
    /// Sections are served in this order when there is not room for all.
    rank: usize,
    items: Vec<Item<'b>>,
    /// Items that the brief itself does not have.
    older: u64,
}

impl Form {
    /// How many characters of a text.
    fn most(self) -> usize {
        match self {
            Self::Short => SHORT,
            Self::Medium => MEDIUM,
            Self::Whole => usize::MAX,
        }
    }
}

impl Item<'_> {
    fn told(&self, form: Form) -> Told {
        Told { form, text: (self.write)(form) }
    }
}

impl Told {
    /// Its length as a line.
    fn cost(&self) -> usize {
        count(&self.text) + 1
    }
}

impl Brief {
    /// The brief in at most `max` characters; in more only if the open and ruled-out hypotheses, each as its id and its
    /// first 60 characters, do not fit.
    pub fn to_text(&self, max: usize) -> String {
        let sections = self.sections();
        let mut told: Vec<Vec<Option<Told>>> = sections
            .iter()
            .map(|one| {
                one.items.iter().map(|item| item.stays.then(|| item.told(Form::Short))).collect()
            })
            .collect();
        let short = told.iter().flatten().flatten();
        if short.map(Told::cost).sum::<usize>() > max {
            return self.least(&sections, &told, max);
        }
        if let Some(whole) = self.whole(&sections, max) {
            return whole;
        }
        let head = self.head(MEDIUM);
        let mut used = count(&self.render(&head, &sections, &told))
            + sections.iter().map(Section::heading_growth).sum::<usize>();
        if used > max {
            return self.least(&sections, &told, max);
        }
        let mut order: Vec<usize> = (0..sections.len()).collect();
        order.sort_by_key(|place| sections[*place].rank);
        // Nobody gets everything before everybody has something.
        for share in [3, 10, usize::MAX] {
            for place in &order {
                for (item, told) in sections[*place].items.iter().zip(&mut told[*place]).take(share)
                {
                    if told.as_ref().is_some_and(|told| told.form == Form::Medium) {
                        continue;
                    }
                    let medium = item.told(Form::Medium);
                    let more = medium.cost().saturating_sub(told.as_ref().map_or(0, Told::cost));
                    if used + more <= max {
                        *told = Some(medium);
                        used += more;
                    }
                }
            }
        }
        self.render(&head, &sections, &told)
    }

    /// Everything that the brief has, if that fits.
    fn whole(&self, sections: &[Section<'_>], max: usize) -> Option<String> {
        let mut used = 0;
        let mut all = Vec::new();
        for section in sections {
            let mut told = Vec::new();
            for item in &section.items {
                let whole = item.told(Form::Whole);
                used += whole.cost();
                if used > max {
                    return None;
                }
                told.push(Some(whole));
            }
            all.push(told);
        }
        Some(self.render(&self.head(usize::MAX), sections, &all)).filter(|text| count(text) <= max)
    }

    fn render(&self, head: &str, sections: &[Section<'_>], told: &[Vec<Option<Told>>]) -> String {
        let mut text = head.to_owned();
        let mut cut = false;
        for (section, told) in sections.iter().zip(told) {
            if section.total() == 0 {
                continue;
            }
            let shown = told.iter().flatten().count() as u64;
            let pairs = section.items.iter().zip(told);
            let shortened = pairs.filter(|(item, told)| {
                let told = told.as_ref().filter(|told| told.form != Form::Whole);
                told.is_some_and(|told| told.text != (item.write)(Form::Whole))
            });
            let shortened = shortened.count();
            cut |= shown < section.total() || shortened > 0;
            text += &section.heading(shown, shortened);
            for one in told.iter().flatten() {
                text += &one.text;
                text.push('\n');
            }
        }
        if cut {
            text += &format!("\nEverything: {}\n", self.command());
        }
        text
    }

    /// The hypotheses that must stay, and of the rest what fits.
    fn least(&self, sections: &[Section<'_>], told: &[Vec<Option<Told>>], max: usize) -> String {
        let mut lines = String::new();
        let mut left_out = Vec::new();
        for (section, told) in sections.iter().zip(told).filter(|(one, _)| one.total() > 0) {
            let mut kept = told.iter().flatten().peekable();
            if kept.peek().is_none() {
                left_out.push(format!("{} ({})", section.title, section.total()));
                continue;
            }
            lines += &format!("{} ({}):\n", section.title, section.total());
            kept.for_each(|one| {
                lines += &one.text;
                lines.push('\n');
            });
        }
        let command = self.command();
        let left_out = match left_out.as_slice() {
            [] => format!("Everything: {command}\n"),
            names => format!("Left out: {}. Everything: {command}\n", names.join(", ")),
        };
        let goal = self.goal.as_ref().map(|goal| format!("Goal: {}\n", clip(goal, GOAL)));
        let goal = goal.unwrap_or_default();
        if lines.is_empty() {
            return within(&format!("{goal}{left_out}"), max);
        }
        let ways = [
            (&*goal, left_out.clone()),
            ("", format!("Everything: {command}\n")),
            ("", String::new()),
        ];
        let needed = count(&lines);
        match ways.iter().find(|(goal, rest)| needed + count(goal) + count(rest) <= max) {
            Some((goal, rest)) => format!("{goal}{lines}{rest}"),
            None => format!(
                "{goal}{lines}{left_out}\nLonger than the {max} characters asked for: every open and ruled-out hypothesis is listed.\n"
            ),
        }
    }

    fn command(&self) -> String {
        format!("rappel at now --session {}", self.session)
    }

    fn head(&self, max: usize) -> String {
        let provider = self.provider.as_ref().map(|one| format!(" ({})", line(one)));
        let latest = self.latest_at.map(|at| format!(", last event {}", age(self.now, at)));
        let mut head = format!(
            "Session {}{}: {}{}, event {}\n",
            self.session,
            provider.unwrap_or_default(),
            self.status,
            latest.unwrap_or_default(),
            self.event,
        );
        let mut add = |name: &str, text: Option<&str>| {
            if let Some(text) = text {
                head += &format!("{name}: {}\n", clip(text, max));
            }
        };
        add("Goal", self.goal.as_deref());
        add("Last asked", self.last_prompt.as_deref());
        add("Progress", self.progress.as_deref());
        add("Branch", Some(&self.branch));
        let back = self
            .restored_to
            .as_ref()
            .map(|id| format!("{id}; what came after it is not known here"));
        add("Set back to", back.as_deref());
        let last = self.last_checkpoint.as_ref().map(|last| {
            let name = last.description.as_ref().map(|name| format!(" \"{}\"", clip(name, SHORT)));
            let (name, age) = (name.unwrap_or_default(), age(self.now, last.created_at));
            format!("{}{name}, {age}; back to it: {}", last.id, last.restore)
        });
        add("Last checkpoint", last.as_deref());
        head
    }

    fn sections(&self) -> Vec<Section<'_>> {
        let older = &self.older;
        let failed = match older.verifications {
            0 => "Failed verifications",
            _ => "Failed verifications, of the newest ones",
        };
        vec![
            section("Contradictions", 0, 0, &self.contradictions, clash),
            section("Confirmed", 1, 0, &self.confirmed, |one| guess(one, false)),
            section("Open hypotheses", 2, 0, &self.open, |one| guess(one, true)),
            section("Ruled out", 3, 0, &self.ruled_out, |one| guess(one, true)),
            section(
                failed,
                5,
                older.failed_verifications,
                &self.failed_verifications,
                verification,
            ),
            section("Beliefs", 7, 0, &self.beliefs, |one| {
                plain(|max| named(&one.id, Some(one.confidence), &one.text, max))
            }),
            section("Not known yet", 6, 0, &self.gaps_open, |one| {
                plain(|max| named(&one.id, None, &one.text, max))
            }),
            section("Found out", 12, older.gaps_filled, &self.gaps_filled, |gap| {
                let answer = gap.answer.as_deref().unwrap_or_default();
                plain(move |max| {
                    format!("{}: {}", named(&gap.id, None, &gap.text, max), clip(answer, max))
                })
            }),
            section("Running", 4, 0, &self.running, |call| {
                let since = age(self.now, call.started_at);
                let what = format!("{} {}", call.tool, call.arguments);
                plain(move |max| format!("{} (began {since})", named(&call.id, None, &what, max)))
            }),
            section("Last thoughts", 8, older.thoughts, &self.thoughts, |one| {
                plain(|max| named(&one.id, one.confidence, &one.content, max))
            }),
            section("Last tool calls", 9, older.tool_calls, &self.tool_calls, called),
            section("Last commands", 10, older.commands, &self.commands, command),
            section("Notes", 11, older.notes, &self.notes, |one| {
                plain(|max| named(&one.id, None, &one.text, max))
            }),
            section("Files touched", 13, 0, &self.files_touched, |path| {
                plain(|max| format!("- {}", clip(path, max)))
            }),
            section("Context", 14, 0, &self.context, |(key, value)| {
                plain(move |max| {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    format!("- {} = {}", clip(key, max), clip(&value, max))
                })
            }),
        ]
    }
}

fn section<'b, T>(
    title: &'static str,
    rank: usize,
    older: u64,
    of: impl IntoIterator<Item = T>,
    item: impl Fn(T) -> Item<'b>,
) -> Section<'b> {
    Section { title, rank, items: of.into_iter().map(item).collect(), older }
}

impl Section<'_> {
    fn total(&self) -> u64 {
        self.items.len() as u64 + self.older
    }

    fn heading(&self, shown: u64, shortened: usize) -> String {
        let total = self.total();
        let shown = if shown < total { format!(", {shown} told") } else { String::new() };
        let shortened =
            if shortened > 0 { format!(", {shortened} shortened") } else { String::new() };
        format!("\n{} ({total}{shown}{shortened})\n", self.title)
    }

    /// How much longer its heading may become while items are given more room.
    fn heading_growth(&self) -> usize {
        let digits = self.total().to_string().len();
        if self.total() == 0 { 0 } else { ", shortened told".len() + 2 * digits }
    }
}

fn plain<'b>(write: impl Fn(usize) -> String + 'b) -> Item<'b> {
    Item { write: Box::new(move |form| write(form.most())), stays: false }
}

/// `- h3 0.7 its text`.
fn named(id: &str, sure: Option<Confidence>, text: &str, max: usize) -> String {
    let sure = sure.map(|sure| format!(" {}", number(sure))).unwrap_or_default();
    format!("- {}{sure} {}", line(id), clip(text, max))
}

fn guess(guess: &Guess, stays: bool) -> Item<'_> {
    let write = move |form: Form| {
        let max = form.most();
        let (id, sure, said) = (line(&guess.id), number(guess.confidence), clip(&guess.text, max));
        if form == Form::Short {
            return format!("{id} {sure} {said}");
        }
        let testing = if guess.status == HypothesisStatus::Testing { " [testing]" } else { "" };
        let mut text = format!("- {id} {sure}{testing} {said}");
        if let Some(reason) = &guess.reason {
            text += &format!(" | because: {}", clip(reason, max));
        }
        for (side, one) in [("for it", &guess.supported_by), ("against it", &guess.refuted_by)] {
            if let Some(Weighed { id, weight, text: said }) = one {
                let said = said.as_ref().map(|said| format!(": {}", clip(said, max)));
                let (id, weight, said) = (line(id), number(*weight), said.unwrap_or_default());
                text += &format!(" | {side}: {id} ({weight}){said}");
            }
        }
        let failed = if form == Form::Whole { guess.failed.len() } else { 2 };
        for one in guess.failed.iter().take(failed) {
            text += &format!(" | failed: {} {}", line(&one.id), clip(&one.text, max));
        }
        text
    };
    Item { write: Box::new(write), stays }
}

fn clash(clash: &Clash) -> Item<'_> {
    plain(|max| {
        let (first, second) = (&clash.first, &clash.second);
        let joined = match clash.rule {
            Rule::Beliefs => "contradicts",
            Rule::Refuted => "is confirmed, but against it is",
            Rule::Required => "requires what is not held any more:",
        };
        let one = |id: &str, text: &str| format!("{} ({})", line(id), clip(text, max));
        format!("- {} {joined} {}", one(&first.id, &first.text), one(&second.id, &second.text))
    })
}

fn verification(one: &Verification) -> Item<'_> {
    plain(|max| {
        let mut text = named(&one.id, None, &one.text, max);
        add_output(&mut text, one.output.as_deref().unwrap_or_default(), max);
        text
    })
}

fn called(call: &Called) -> Item<'_> {
    plain(|max| {
        let given = call.arguments.as_deref().unwrap_or_default();
        let mut text = named(&call.id, None, &format!("{} {given}", call.tool), max.min(SHORT * 2));
        let failed = call.error.is_some() || call.success == Some(false);
        match (failed, call.error.as_ref().or(call.result.as_ref())) {
            (true, Some(why)) => text += &format!(" | failed: {}", clip(why, max)),
            (true, None) => text += " | failed",
            (false, Some(gave)) => text += &format!(" | {}", clip(gave, max.min(SHORT * 2))),
            (false, None) => {}
        }
        text
    })
}

fn command(command: &ExecutedCommand) -> Item<'_> {
    let write = |form: Form| {
        let max = if form == Form::Whole { usize::MAX } else { SHORT * 2 };
        let code = command.exit_code.map_or("?".to_owned(), |code| code.to_string());
        let place = command.working_dir.as_ref().map(|place| format!(" (in {})", clip(place, max)));
        let place = place.unwrap_or_default();
        let mut text = format!("- [{code}] {}{place}", clip(&command.command, max));
        add_output(&mut text, &command.stdout_preview, max);
        add_output(&mut text, &command.stderr_preview, max);
        text
    };
    Item { write: Box::new(write), stays: false }
}

/// What something said is told by its first lines only, however much room there is.
fn add_output(text: &mut String, output: &str, max: usize) {
    for one in output.lines().filter(|line| !line.trim().is_empty()).take(OUTPUT_LINES) {
        *text += &format!("\n    {}", clip(one, max.min(MEDIUM)));
    }
}

/// `0.7`, `0.85`, `1`.
fn number(confidence: Confidence) -> String {
    format!("{}", (confidence.get() * 100.0).round() / 100.0)
}

/// A text as one line: nothing in it moves a cursor, begins a line of its own or turns the direction of reading.
fn line(text: &str) -> String {
    clip(text, usize::MAX)
}

/// The first characters of a text, as one line, and a `…` where there are more.
pub(super) fn clip(text: &str, max: usize) -> String {
    let end = text.char_indices().nth(max).map_or(text.len(), |(end, _)| end);
    let (head, rest) = text.split_at(end);
    // Most texts are one line already.
    if is_line(head) {
        let more = rest.chars().any(|c| !steers(c));
        return if more { format!("{head}…") } else { head.trim_end().to_owned() };
    }
    let words: Vec<&str> = text.split(steers).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(max) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// Whether nothing is to be changed in a text but spaces at its end.
fn is_line(text: &str) -> bool {
    let mut before = ' ';
    text.chars().all(|c| {
        let fits = if c == ' ' { before != ' ' } else { !steers(c) };
        before = c;
        fits
    })
}

fn steers(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_whitespace() || c.is_control() || turns
}

/// No more than `max` characters, with a `…` among them where something was cut.
fn within(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain("…".chars().take(max)).collect(),
    }
}

fn count(text: &str) -> usize {
    text.chars().count()
}
