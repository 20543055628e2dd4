//! The commits that a command of git goes to. Git overwrites an ignored file if such a commit tracks
//! it. Whether there is one is asked of git when the line is about to run, not here.

use rappel::Commit;

use super::rules::{Arguments, Commits, Rule};
use super::steps::Folder;
use super::targets::Findings;
use super::word::Word;

impl Findings {
    /// Notes the commits whose files a command writes into the work tree.
    pub fn add_commits(
        &mut self,
        rule: &Rule,
        arguments: &Arguments<'_>,
        depth: usize,
        folder: &Folder,
    ) {
        let operands = || arguments.before_dashes(depth).cloned();
        let mut named: Vec<Word> =
            rule.commit_options.iter().flat_map(|option| arguments.values_of(option)).collect();
        let mut is_later = false;
        match rule.commits {
            Commits::None if named.is_empty() => return,
            Commits::None => {}
            Commits::Fetches => {
                self.fetched = true;
                return;
            }
            Commits::First => named.extend(operands().next()),
            Commits::All | Commits::Picked | Commits::Replayed => named.extend(operands()),
            Commits::Stash => named.extend(operands().next().map(|word| stash(&word))),
            Commits::StashBehindName => named.extend(operands().nth(1).map(|word| stash(&word))),
            Commits::Fetched | Commits::FetchedAndReplayed => {
                let of_remote: Vec<Word> = operands().collect();
                // The user's own repository is fetched from as it is.
                is_later = of_remote.first().is_none_or(|remote| remote.text() != Some("."));
                named.extend(of_remote.iter().skip(1).map(|branch| fetched(&of_remote[0], branch)));
            }
        }
        if named.is_empty() {
            named.extend(rule.otherwise.as_deref().map(Word::known));
        }
        let parents = matches!(rule.commits, Commits::Picked | Commits::StashBehindName);
        for word in &named {
            self.add_commit(word, parents, is_later, folder);
        }
        if rule.commits == Commits::FetchedAndReplayed {
            self.add_replayed((named.first().cloned(), None), folder);
        }
        if rule.commits == Commits::Replayed {
            let otherwise = rule.otherwise.as_deref().map(Word::known);
            let mut ends = operands();
            self.add_replayed((ends.next().or(otherwise), ends.next()), folder);
        }
        if !named.is_empty() {
            self.say_perhaps(&rule.says);
            self.moved = true;
        }
    }

    /// Notes the commits between two, which a rebase goes through one by one.
    fn add_replayed(&mut self, (from, to): (Option<Word>, Option<Word>), folder: &Folder) {
        let to = to.unwrap_or_else(|| Word::known("HEAD"));
        if let (Some(folder), Some(from), Some(to)) =
            (folder, from.as_ref().and_then(Word::text), to.text())
        {
            let name = format!("{from}..{to}");
            self.commits.insert(Commit { folder: folder.to_path_buf(), name, later: false });
        }
    }

    fn add_commit(&mut self, word: &Word, parents: bool, is_later: bool, folder: &Folder) {
        let Some(folder) = folder.as_ref().filter(|_| !word.unknown) else {
            self.unknown.insert(word.raw.clone());
            return;
        };
        if parents {
            for range in word.values.iter().filter(|value| value.contains("..")) {
                let (name, later) = (range.clone(), false);
                self.commits.insert(Commit { folder: folder.to_path_buf(), name, later });
            }
        }
        // `a..b` names both, and `..b` one.
        let parts = word.values.iter().flat_map(|value| value.split(".."));
        for name in parts.map(|part| part.trim_matches('.')).filter(|name| !name.is_empty()) {
            let name = if name == "-" { "@{-1}" } else { name };
            let of_remote = name.contains('/') || name.contains("@{u") || name == "FETCH_HEAD";
            let of_head = name.starts_with("HEAD") || name.starts_with('@');
            let later = is_later || self.fetched && of_remote || self.moved && of_head;
            let mut add = |name: String| {
                self.commits.insert(Commit { folder: folder.to_path_buf(), name, later });
            };
            add(name.to_owned());
            if parents {
                add(format!("{name}^"));
            }
        }
    }
}

/// `stash@{N}`, for the number alone too.
fn stash(word: &Word) -> Word {
    let whole = |value: &String| match value.parse::<u32>() {
        Ok(number) => format!("stash@{{{number}}}"),
        Err(_) => value.clone(),
    };
    Word { values: word.values.iter().map(whole).collect(), ..word.clone() }
}

/// The branch of a remote, as it was fetched last; of the user's own repository, as it is.
fn fetched(remote: &Word, branch: &Word) -> Word {
    let (Some(from), Some(name)) = (remote.text(), branch.text()) else {
        return Word { unknown: true, ..branch.clone() };
    };
    // `source:destination` fetches the source.
    let name = name.trim_start_matches('+').split(':').next().unwrap_or_default();
    let value = if from == "." { name.to_owned() } else { format!("{from}/{name}") };
    Word { values: vec![value], ..branch.clone() }
}
