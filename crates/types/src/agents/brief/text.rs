//! A brief as text that fits.
//!
//! The goal, and a line for every open and every ruled-out hypothesis with its id and its first 60 characters, are always
//! told. All else is given in one order, whatever the room: what stands at the head, the headings with their counts,
//! the first items of each section in short, then more of them and more of each, and last everything in whole. As much
//! of that is told as fits, so that more room never tells less. Headings count what is not told, and the last line
//! names the command that tells it.
//!
//! Not guaranteed: what is always told may be longer than the room. Then it is printed all the same, because a
//! hypothesis that an agent does not know to be ruled out is tried again; the last line says so.

use super::{Brief, Called, Clash, Guess, Weighed};
use crate::Advice;
use crate::agents::state::{
    Confidence, ExecutedCommand, HypothesisStatus, MAIN_BRANCH, Verification,
};
use crate::time::age;

/// What stays of a hypothesis that is not told in whole.
const SHORT: usize = 60;
/// What stays of any other text.
const MEDIUM: usize = 240;
/// What stays of the goal.
const GOAL: usize = 160;
/// Headings and the last line may become so much shorter while more is told, and no more.
const SHRINKS: usize = 1_000;
/// Lines of a command's output.
const OUTPUT_LINES: usize = 3;

/// One thing to tell. It is written when somebody asks: of ten thousand hypotheses most are never told in whole.
struct Item<'b> {
    write: Box<dyn Fn(Form) -> String + 'b>,
    /// Never left out: at least its short form is told.
    stays: bool,
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Form {
    Short,
    Medium,
    Whole,
}

struct Section<'b> {
    /// Missing at the head of the brief.
    title: Option<&'static str>,
    /// Sections are served in this order when there is not room for all.
    rank: usize,
    items: Vec<Item<'b>>,
    /// Items that the brief itself does not have.
    older: u64,
}

/// More of a section is told: its heading, or one of its items.
#[derive(Clone, Copy)]
struct Grant {
    section: usize,
    item: Option<(usize, Form)>,
}

/// A section as far as it is told.
#[derive(Default)]
struct Part {
    headed: bool,
    told: Vec<Option<Told>>,
    shown: u64,
    shortened: u64,
    /// The length of its items, each as a line.
    length: usize,
}

/// An item as it is told.
struct Told {
    form: Form,
    text: String,
    /// It says more in whole.
    shortened: bool,
}

/// A brief that is being written.
struct Draft<'d> {
    sections: &'d [Section<'d>],
    parts: Vec<Part>,
    command: String,
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

impl Brief {
    /// The same with how to see everything and how to bring the last checkpoint back, in the words
    /// of a face.
    #[must_use]
    pub fn worded(mut self, words: &dyn Fn(&Advice) -> String) -> Self {
        let session = self.session.to_string();
        self.everything = Some(words(&Advice::SeeEverything { session }));
        if let Some(last) = self.last_checkpoint.as_mut().filter(|last| last.restorable) {
            let checkpoint = last.id.to_string();
            last.restore = Some(words(&Advice::Restore { checkpoint, paths: Vec::new() }));
        }
        self
    }

    /// The brief in at most `max` characters; in more only if the goal and the open and ruled-out hypotheses, each as its
    /// id and its first 60 characters, do not fit. More characters never tell less.
    pub fn to_text(&self, max: usize) -> String {
        let sections = self.sections();
        let everything = || format!("the state of session {}", self.session);
        let everything = self.everything.clone().unwrap_or_else(everything);
        let least = || Draft::new(&sections, everything.clone());
        let mut draft = least();
        if draft.length() > max {
            let text = draft.render();
            return match self.open.is_empty() && self.ruled_out.is_empty() {
                true => within(&text, max),
                false => format!(
                    "{text}\nLonger than the {max} characters asked for: every open and ruled-out hypothesis is listed.\n"
                ),
            };
        }
        let grants = grants(&sections);
        let mut fit = 0;
        for (place, grant) in grants.iter().enumerate() {
            draft.give(*grant);
            match draft.length() {
                length if length <= max => fit = place + 1,
                length if length > max + SHRINKS => break,
                _ => {}
            }
        }
        let mut draft = least();
        grants.into_iter().take(fit).for_each(|grant| draft.give(grant));
        draft.render()
    }

    /// What stands at the head, in lines.
    fn head(&self) -> Section<'_> {
        let provider = self.provider.as_ref().map(|one| format!(" ({})", line(one)));
        let latest = self.latest_at.map(|at| format!(", last event {}", age(self.now, at)));
        let session = format!(
            "Session {}{}: {}{}, event {}",
            self.session,
            provider.unwrap_or_default(),
            self.status,
            latest.unwrap_or_default(),
            self.event,
        );
        let back = self
            .restored_to
            .as_ref()
            .map(|id| format!("{id}; what came after it is not known here"));
        let last = self.last_checkpoint.as_ref().map(|last| {
            let name = last.description.as_ref().map(|name| format!(" \"{}\"", clip(name, SHORT)));
            let (name, age) = (name.unwrap_or_default(), age(self.now, last.created_at));
            let back = last.restore.as_ref().map(|command| format!("; back to it: {command}"));
            format!("{}{name}, {age}{}", last.id, back.unwrap_or_default())
        });
        let mut items = vec![plain(move |_| session.clone())];
        items.extend(self.goal.as_ref().map(|goal| Item {
            write: Box::new(move |form| format!("Goal: {}", clip(goal, form.most().max(GOAL)))),
            stays: true,
        }));
        let experiment = Some(&self.branch).filter(|branch| *branch != MAIN_BRANCH);
        let lines = [
            ("Last asked", self.last_prompt.clone()),
            ("Progress", self.progress.clone()),
            ("Approach", experiment.cloned()),
            ("Set back to", back),
            ("Last checkpoint", last),
        ];
        let lines = lines.into_iter().filter_map(|(name, text)| Some((name, text?)));
        items.extend(
            lines.map(|(name, text)| plain(move |max| format!("{name}: {}", clip(&text, max)))),
        );
        Section { title: None, rank: 0, items, older: 0 }
    }

    fn sections(&self) -> Vec<Section<'_>> {
        let older = &self.older;
        let failed = match older.verifications {
            0 => "Failed verifications",
            _ => "Failed verifications, of the newest ones",
        };
        vec![
            self.head(),
            section("Contradictions", 0, 0, &self.contradictions, clash),
            section("Confirmed hypotheses", 1, 0, &self.confirmed, |one| guess(one, false)),
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
            section("Open gaps", 6, 0, &self.gaps_open, |one| {
                plain(|max| named(&one.id, None, &one.text, max))
            }),
            section("Filled gaps", 12, older.gaps_filled, &self.gaps_filled, |gap| {
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
    Section { title: Some(title), rank, items: of.into_iter().map(item).collect(), older }
}

/// Everything that can be told beyond what always is, in the order in which it is given room. Nobody gets everything
/// before everybody has something.
fn grants(sections: &[Section<'_>]) -> Vec<Grant> {
    let mut order: Vec<usize> = (0..sections.len()).collect();
    order.sort_by_key(|place| sections[*place].rank);
    let (head, rest): (Vec<usize>, Vec<usize>) =
        order.into_iter().partition(|place| sections[*place].title.is_none());
    let items = |places: &[usize], share: usize, form: Form| -> Vec<Grant> {
        let of = |section: &usize| {
            let (section, count) = (*section, sections[*section].items.len().min(share));
            (0..count).map(move |item| Grant { section, item: Some((item, form)) })
        };
        places.iter().flat_map(of).collect()
    };
    let mut grants = items(&head, usize::MAX, Form::Medium);
    grants.extend(rest.iter().map(|section| Grant { section: *section, item: None }));
    for (share, form) in
        [(3, Form::Short), (3, Form::Medium), (10, Form::Medium), (usize::MAX, Form::Medium)]
    {
        grants.extend(items(&rest, share, form));
    }
    for places in [head, rest] {
        grants.extend(items(&places, usize::MAX, Form::Whole));
    }
    grants
}

impl<'d> Draft<'d> {
    /// With nothing but what is always told.
    fn new(sections: &'d [Section<'d>], command: String) -> Self {
        let none = |section: &Section<'_>| Part {
            told: section.items.iter().map(|_| None).collect(),
            ..Part::default()
        };
        let mut draft = Self { sections, parts: sections.iter().map(none).collect(), command };
        for (place, section) in sections.iter().enumerate() {
            for (item, _) in section.items.iter().enumerate().filter(|(_, item)| item.stays) {
                draft.give(Grant { section: place, item: Some((item, Form::Short)) });
            }
        }
        draft
    }

    fn give(&mut self, Grant { section, item }: Grant) {
        let part = &mut self.parts[section];
        part.headed |= self.sections[section].total() > 0;
        let Some((item, form)) = item else { return };
        let write = &self.sections[section].items[item].write;
        let told = &mut part.told[item];
        match told {
            Some(before) if before.form >= form => return,
            Some(before) => {
                part.length -= count(&before.text) + 1;
                part.shortened -= u64::from(before.shortened);
            }
            None => part.shown += 1,
        }
        let text = write(form);
        let whole = write(Form::Whole);
        let shortened = text.trim_start_matches("- ") != whole.trim_start_matches("- ");
        part.length += count(&text) + 1;
        part.shortened += u64::from(shortened);
        *told = Some(Told { form, text, shortened });
    }

    fn length(&self) -> usize {
        let pairs = self.sections.iter().zip(&self.parts);
        let parts = pairs.map(|(section, part)| count(&section.heading(part)) + part.length);
        parts.sum::<usize>() + count(&self.last_line())
    }

    fn render(&self) -> String {
        let mut text = String::new();
        for (section, part) in self.sections.iter().zip(&self.parts) {
            text += &section.heading(part);
            for one in part.told.iter().flatten() {
                text += &one.text;
                text.push('\n');
            }
        }
        text += &self.last_line();
        text.trim_start_matches('\n').to_owned()
    }

    /// How much is not told, and what tells it; nothing where everything is told.
    fn last_line(&self) -> String {
        let pairs = self.sections.iter().zip(&self.parts);
        let untold: u64 = pairs.map(|(section, part)| section.total() - part.shown).sum();
        let shortened = self.parts.iter().any(|part| part.shortened > 0);
        match untold {
            0 if !shortened => String::new(),
            0 => format!("\nEverything: {}\n", self.command),
            untold => format!("\nNot told: {untold}. Everything: {}\n", self.command),
        }
    }
}

impl Section<'_> {
    fn total(&self) -> u64 {
        self.items.len() as u64 + self.older
    }

    /// Its heading, with counts of what is told; nothing where it is not told at all.
    fn heading(&self, part: &Part) -> String {
        let Some(title) = self.title.filter(|_| part.headed) else { return String::new() };
        let (total, Part { shown, shortened, .. }) = (self.total(), part);
        let shown = if *shown < total { format!(", {shown} told") } else { String::new() };
        let shortened =
            if *shortened > 0 { format!(", {shortened} shortened") } else { String::new() };
        format!("\n{title} ({total}{shown}{shortened})\n")
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
        let joined = clash.rule.words();
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
        let more = rest.chars().any(|c| !c.is_whitespace());
        return if more { format!("{head}…") } else { head.trim_end().to_owned() };
    }
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if steers(c) { line.extend(c.escape_unicode()) } else { line.push(c) }
        }
    }
    match line.char_indices().nth(max) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// Whether nothing is to be changed in a text but spaces at its end.
fn is_line(text: &str) -> bool {
    let mut before = ' ';
    text.chars().all(|c| {
        let fits = if c == ' ' { before != ' ' } else { !c.is_whitespace() && !steers(c) };
        before = c;
        fits
    })
}

/// Whether a character is shown by its number, as everywhere.
fn steers(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
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
