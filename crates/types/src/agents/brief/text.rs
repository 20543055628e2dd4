//! A brief as text that fits.
//!
//! Everything is told in whole if that fits. Otherwise every open and every ruled-out hypothesis keeps a line with its id
//! and its first 60 characters, and what is left of the room is given out by importance; headings count what is not
//! told, and the last line names the command that tells it.
//!
//! Not guaranteed: those lines alone may be longer than the room. Then they are printed all the same, because a
//! hypothesis that an agent does not know to be ruled out is tried again; the last line says how much too long it is.

use super::{Brief, Clash, Guess};
use crate::agents::contradiction::Rule;
use crate::agents::state::{Confidence, ExecutedCommand, HypothesisStatus};
use crate::time::age;

/// What stays of a hypothesis that is not told in whole.
const SHORT: usize = 60;
/// What stays of any other text.
const MEDIUM: usize = 240;
/// The goal, where even the headings do not fit.
const GOAL: usize = 160;
/// Lines of a command's output.
const OUTPUT_LINES: usize = 3;

/// One thing to tell, in its sizes.
struct Item {
    whole: String,
    medium: String,
    /// Never left out: at least this is told.
    short: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Out,
    Short,
    Medium,
    Whole,
}

struct Section {
    title: &'static str,
    /// Sections are served in this order when there is not room for all.
    rank: usize,
    items: Vec<Item>,
    /// Items that the brief itself does not have.
    older: u64,
}

impl Item {
    fn form(&self, form: Form) -> Option<&str> {
        match form {
            Form::Out => None,
            Form::Short => self.short.as_deref(),
            Form::Medium => Some(&self.medium),
            Form::Whole => Some(&self.whole),
        }
    }

    /// Its length as a line.
    fn cost(&self, form: Form) -> usize {
        self.form(form).map_or(0, |text| count(text) + 1)
    }

    fn least(&self) -> Form {
        if self.short.is_some() { Form::Short } else { Form::Out }
    }
}

impl Brief {
    /// The brief in at most `max` characters; in more only if the open and ruled-out hypotheses, each as its id and its
    /// first 60 characters, do not fit.
    pub fn to_text(&self, max: usize) -> String {
        let sections = self.sections();
        let head = self.head(usize::MAX);
        let all: Vec<Vec<Form>> =
            sections.iter().map(|one| vec![Form::Whole; one.items.len()]).collect();
        let whole = self.render(&head, &sections, &all);
        if count(&whole) <= max {
            return whole;
        }

        let head = self.head(MEDIUM);
        let mut forms: Vec<Vec<Form>> =
            sections.iter().map(|one| one.items.iter().map(Item::least).collect()).collect();
        let mut used = count(&self.render(&head, &sections, &forms))
            + sections.iter().map(Section::heading_growth).sum::<usize>();
        if used > max {
            return self.least(&sections, max);
        }
        let mut order: Vec<usize> = (0..sections.len()).collect();
        order.sort_by_key(|place| sections[*place].rank);
        // Nobody gets everything before everybody has something.
        for share in [3, 10, usize::MAX] {
            for place in &order {
                for (item, form) in
                    sections[*place].items.iter().zip(&mut forms[*place]).take(share)
                {
                    let more = item.cost(Form::Medium).saturating_sub(item.cost(*form));
                    if *form != Form::Medium && used + more <= max {
                        *form = Form::Medium;
                        used += more;
                    }
                }
            }
        }
        self.render(&head, &sections, &forms)
    }

    fn render(&self, head: &str, sections: &[Section], forms: &[Vec<Form>]) -> String {
        let mut text = head.to_owned();
        let mut cut = false;
        for (section, forms) in sections.iter().zip(forms) {
            if section.total() == 0 {
                continue;
            }
            let told = |(item, form): &(&Item, &Form)| item.form(**form).is_some();
            let cut_short = |(item, form): &(&Item, &Form)| {
                item.form(**form).is_some_and(|text| text != item.whole)
            };
            let pairs = || section.items.iter().zip(forms);
            let shown = pairs().filter(told).count() as u64;
            let shortened = pairs().filter(cut_short).count();
            cut |= shown < section.total() || shortened > 0;
            text += &section.heading(shown, shortened);
            for (item, form) in pairs() {
                if let Some(line) = item.form(*form) {
                    text += line;
                    text.push('\n');
                }
            }
        }
        if cut {
            text += &format!("\nEverything: {}\n", self.command());
        }
        text
    }

    /// The hypotheses that must stay, and of the rest what fits.
    fn least(&self, sections: &[Section], max: usize) -> String {
        let mut lines = String::new();
        let mut left_out = Vec::new();
        for section in sections.iter().filter(|section| section.total() > 0) {
            let kept: Vec<&str> =
                section.items.iter().filter_map(|item| item.short.as_deref()).collect();
            if kept.is_empty() {
                left_out.push(format!("{} ({})", section.title, section.total()));
            } else {
                lines += &format!("{} ({}):\n{}\n", section.title, kept.len(), kept.join("\n"));
            }
        }
        let command = self.command();
        let left_out = match left_out.as_slice() {
            [] => format!("Everything: {command}\n"),
            names => format!("Left out: {}. Everything: {command}\n", names.join(", ")),
        };
        let goal = self.goal.as_ref().map(|goal| format!("Goal: {}\n", clip(goal, GOAL)));
        let goal = goal.unwrap_or_default();
        let everything = format!("{goal}{lines}{left_out}");
        let needed = [&lines, &format!("{lines}Everything: {command}\n"), &everything];
        if lines.is_empty() {
            return within(&everything, max);
        }
        match needed.into_iter().rev().find(|text| count(text) <= max) {
            Some(fits) => fits.clone(),
            None => format!(
                "{everything}\nLonger than the {max} characters asked for: every open and ruled-out hypothesis is listed.\n"
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

    fn sections(&self) -> Vec<Section> {
        let section = |title, rank, items| Section { title, rank, items, older: 0 };
        let named = |id: &str, sure: Option<Confidence>, text: &str| {
            let sure = sure.map(|sure| format!(" {}", number(sure))).unwrap_or_default();
            plain(|max| format!("- {}{sure} {}", line(id), clip(text, max)))
        };
        vec![
            section("Contradictions", 0, self.contradictions.iter().map(clash).collect()),
            section("Confirmed", 1, self.confirmed.iter().map(|one| guess(one, false)).collect()),
            section("Open hypotheses", 2, self.open.iter().map(|one| guess(one, true)).collect()),
            section("Ruled out", 3, self.ruled_out.iter().map(|one| guess(one, true)).collect()),
            section(
                "Beliefs",
                6,
                self.beliefs
                    .iter()
                    .map(|one| named(&one.id, Some(one.confidence), &one.text))
                    .collect(),
            ),
            section(
                "Not known yet",
                5,
                self.gaps_open.iter().map(|one| named(&one.id, None, &one.text)).collect(),
            ),
            Section {
                older: self.older.gaps_filled,
                ..section(
                    "Found out",
                    9,
                    self.gaps_filled
                        .iter()
                        .map(|gap| {
                            let answer = gap.answer.as_deref().unwrap_or_default();
                            plain(|max| {
                                format!(
                                    "- {} {}: {}",
                                    line(&gap.id),
                                    clip(&gap.text, max),
                                    clip(answer, max)
                                )
                            })
                        })
                        .collect(),
                )
            },
            section(
                "Running",
                4,
                self.running
                    .iter()
                    .map(|call| {
                        let since = age(self.now, call.started_at);
                        let arguments = call.arguments.to_string();
                        plain(|max| {
                            format!(
                                "- {} {} {} (began {since})",
                                line(&call.id),
                                line(&call.tool),
                                clip(&arguments, max)
                            )
                        })
                    })
                    .collect(),
            ),
            Section {
                older: self.older.commands,
                ..section("Last commands", 7, self.commands.iter().map(command).collect())
            },
            Section {
                older: self.older.notes,
                ..section(
                    "Notes",
                    8,
                    self.notes.iter().map(|one| named(&one.id, None, &one.text)).collect(),
                )
            },
            section(
                "Files touched",
                10,
                self.files_touched
                    .iter()
                    .map(|path| plain(|max| format!("- {}", clip(path, max))))
                    .collect(),
            ),
            section(
                "Context",
                11,
                self.context
                    .iter()
                    .map(|(key, value)| {
                        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                        plain(|max| format!("- {} = {}", clip(key, max), clip(&value, max)))
                    })
                    .collect(),
            ),
        ]
    }
}

impl Section {
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

fn plain(write: impl Fn(usize) -> String) -> Item {
    Item { whole: write(usize::MAX), medium: write(MEDIUM), short: None }
}

fn guess(guess: &Guess, stays: bool) -> Item {
    let (id, sure) = (line(&guess.id), number(guess.confidence));
    let write = |max: usize| {
        let testing = if guess.status == HypothesisStatus::Testing { " [testing]" } else { "" };
        let mut text = format!("- {id} {sure}{testing} {}", clip(&guess.text, max));
        if let Some(reason) = &guess.reason {
            text += &format!(" | because: {}", clip(reason, max));
        }
        if let Some(against) = &guess.refuted_by {
            let words = against.text.as_ref().map(|text| format!(": {}", clip(text, max)));
            let words = words.unwrap_or_default();
            text += &format!(
                " | against it: {} ({}){words}",
                line(&against.id),
                number(against.weight)
            );
        }
        let failed = if max == usize::MAX { guess.failed.len() } else { 2 };
        for one in guess.failed.iter().take(failed) {
            text += &format!(" | failed: {} {}", line(&one.id), clip(&one.text, max));
        }
        text
    };
    let short = stays.then(|| format!("{id} {sure} {}", clip(&guess.text, SHORT)));
    Item { whole: write(usize::MAX), medium: write(MEDIUM), short }
}

fn clash(clash: &Clash) -> Item {
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

fn command(command: &ExecutedCommand) -> Item {
    let write = |max: usize, lines: usize| {
        let code = command.exit_code.map_or("?".to_owned(), |code| code.to_string());
        let place = command.working_dir.as_ref().map(|place| format!(" (in {})", clip(place, max)));
        let place = place.unwrap_or_default();
        let mut text = format!("- [{code}] {}{place}", clip(&command.command, max));
        for output in [&command.stdout_preview, &command.stderr_preview] {
            let said = output.lines().filter(|line| !line.trim().is_empty());
            for one in said.take(lines) {
                text += &format!("\n    {}", clip(one, max.min(MEDIUM)));
            }
        }
        text
    };
    // What a command said is told by its first lines only, however much room there is.
    Item {
        whole: write(usize::MAX, OUTPUT_LINES),
        medium: write(SHORT * 2, OUTPUT_LINES),
        short: None,
    }
}

/// `0.7`, `0.85`, `1`.
fn number(confidence: Confidence) -> String {
    format!("{}", (confidence.get() * 100.0).round() / 100.0)
}

/// A text as one line: nothing in it moves a cursor, begins a line of its own or turns the direction of reading.
fn line(text: &str) -> String {
    let steers = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        c.is_whitespace() || c.is_control() || turns
    };
    let words: Vec<&str> = text.split(steers).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// The first characters of a text, as one line.
fn clip(text: &str, max: usize) -> String {
    cut(&line(text), max)
}

/// No more than `max` characters, with a `…` among them where something was cut.
fn within(text: &str, max: usize) -> String {
    if count(text) <= max {
        text.to_owned()
    } else {
        cut(text, max.saturating_sub(1)).chars().take(max).collect()
    }
}

/// The first `max` characters, and a `…` where there are more.
fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn count(text: &str) -> usize {
    text.chars().count()
}
