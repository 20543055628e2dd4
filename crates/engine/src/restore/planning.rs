//! What a restore would do: every facet compared with the present. Nothing is changed here.

use rappel_capture::restore::{RootProbe, Scope, Side, WithoutProbe, plan_files};
use rappel_store::beneath::Root;
use rappel_store::sink::{Scratch, Source};
use rappel_store::tree::{self, Change};
use rappel_types::git::GitPart;
use rappel_types::manifest::FilesPart;
use rappel_types::{Action, ActionKind, CheckpointId, Facet, Manifest, Plan, Reference, RelPath};

use super::report::report_of;
use super::{Limit, Planned, Present, RecordedRules, RestoreOptions, RestoreReport, Target};
use crate::databases::{DatabasesPlanned, plan_databases, refuse_as_file};
use crate::error::{Error, Result};
use crate::git::{GitPlanned, GitWish, going};
use crate::knowledge;
use crate::rappel::Rappel;

impl Rappel {
    /// What restoring a checkpoint would do. Changes nothing at all.
    pub fn plan_restore(
        &self,
        reference: &Reference,
        options: &RestoreOptions,
    ) -> Result<RestoreReport> {
        self.refuse_if_unfinished()?;
        let target = self.own_target(reference, options)?;
        let scratch = Scratch::over(self.source());
        let limit = Limit::Options(options);
        let planned = self.plan_in_memory(&scratch, &target, &limit)?;
        Ok(report_of(&target.manifest.id, planned, true))
    }

    /// What going to a checkpoint would do to exactly these paths.
    pub(crate) fn plan_exactly(
        &self,
        to: &CheckpointId,
        limit: &Limit<'_>,
    ) -> Result<RestoreReport> {
        let deleted = || Error::Deleted { checkpoint: to.clone() };
        let target = self.target_of(&self.store.checkpoint(to)?.ok_or_else(deleted)?)?;
        let scratch = Scratch::over(self.source());
        let planned = self.plan_in_memory(&scratch, &target, limit)?;
        let edited = planned.edited();
        let mut report = report_of(to, planned, true);
        report.conflicts.extend(edited);
        Ok(report)
    }

    /// What going to a checkpoint would do, by a look at the present that changes nothing.
    fn plan_in_memory(
        &self,
        scratch: &Scratch<'_>,
        target: &Target,
        limit: &Limit<'_>,
    ) -> Result<Planned> {
        let wish = limit.databases();
        let mut looked = self.look_at_databases(&target.manifest, wish.as_ref(), scratch)?;
        let mut present = self.look(scratch, target, limit, &mut looked)?;
        if limit.agents().is_some() {
            present.news = self.sessions_with_news()?;
        }
        let databases = plan_databases(&mut looked, wish.as_ref());
        self.plan(scratch, &present, target, limit, databases)
    }

    pub(crate) fn plan(
        &self,
        source: &dyn Source,
        present: &Present,
        target: &Target,
        limit: &Limit<'_>,
        databases: DatabasesPlanned,
    ) -> Result<Planned> {
        if let Limit::Options(options) = limit {
            options.check_facets()?;
        }
        let knowledge = target.manifest.knowledge.iter().flat_map(|part| &part.paths);
        let knowledge: Vec<RelPath> =
            knowledge.chain(&self.config.knowledge.paths).cloned().collect();
        let folders = target.manifest.agents.iter().flat_map(|part| &part.state_dirs);
        let folders: Vec<RelPath> =
            folders.chain(&self.config.agents.state_dirs).cloned().collect();
        let facet_of = |path: &RelPath| match path {
            path if knowledge::holds(&knowledge, path) => Facet::Knowledge,
            path if knowledge::holds(&folders, path) => Facet::Agents,
            _ => Facet::Files,
        };
        let mut changes = present.changes.clone();
        let (scope, wish) = match limit {
            Limit::Options(options) => {
                check_paths(options, &changes, source, present, target)?;
                changes.retain(|change| options.wants(facet_of(&change.path)));
                (options.scope(), options.git())
            }
            Limit::Exactly { paths, git: wish, .. } => {
                changes.retain(|change| paths.contains(&change.path));
                (Scope::All, wish.clone())
            }
        };
        let git = match wish {
            // Who asks for nothing else, or has nothing else to restore, misses something.
            Some(wish) if changes.is_empty() => {
                let wish = GitWish { thorough: true, ..wish };
                self.plan_git(source, &present.git, &target.manifest, &wish)?
            }
            Some(wish) => self.plan_git(source, &present.git, &target.manifest, &wish)?,
            None => GitPlanned::default(),
        };
        let mut plan = match &target.manifest.files {
            Some(files) => {
                // What a step takes back it made itself, whatever the rules were before it.
                let by_rules = matches!(limit, Limit::Options(_));
                let wanted = (&changes[..], &scope, by_rules);
                self.plan_files(source, present, target, files, wanted, &git)?
            }
            None => Plan {
                warnings: match limit {
                    Limit::Options(options) if options.wants(Facet::Files) => {
                        let id = &target.manifest.id;
                        vec![format!("{id} holds no files; they are left alone")].into()
                    }
                    _ => rappel_types::Remarks::default(),
                },
                ..Plan::default()
            },
        };
        for path in &databases.displaced {
            let Some(old) = tree::lookup(source, &present.tree, path)? else { continue };
            plan.actions.retain(|action| action.path != *path);
            plan.actions.push(Action {
                facet: Facet::Files,
                action: ActionKind::Delete,
                path: path.clone(),
                reason: "it is, or belongs to, a damaged database that is made anew".into(),
                old: Some(old),
                new: None,
            });
        }
        if !databases.displaced.is_empty() {
            plan.actions.sort_by(|a, b| a.path.cmp(&b.path));
        }
        for action in &mut plan.actions {
            action.facet = facet_of(&action.path);
        }
        plan.git.clone_from(&git.plan);
        plan.conflicts.extend(git.conflicts.iter().cloned());
        plan.warnings.extend(git.warnings.iter().cloned());
        plan.databases.clone_from(&databases.plan);
        plan.conflicts.extend(databases.conflicts.iter().cloned());
        plan.warnings.extend(databases.warnings.iter().cloned());
        let mut agents =
            self.plan_agents(&target.manifest, limit.agents().as_ref(), &present.news)?;
        if let Limit::Options(options) = limit {
            self.say_who_runs(options, &mut agents)?;
            plan.warnings
                .extend(crate::databases::left_alone_below(&target.manifest, &options.paths));
        }
        plan.agents.clone_from(&agents.plan);
        plan.warnings.extend(agents.warnings.iter().cloned());
        plan.conflicts.extend(agents.conflicts.iter().cloned());
        Ok(Planned { plan, git, databases, agents })
    }

    /// The part of a plan that is about files.
    fn plan_files(
        &self,
        source: &dyn Source,
        present: &Present,
        target: &Target,
        files: &FilesPart,
        (changes, scope, by_rules): (&[Change], &Scope, bool),
        git: &GitPlanned,
    ) -> Result<Plan> {
        let rules = RecordedRules::of(source, files)?;
        let root = Root::open(&self.root, self.options.disk.clone())?;
        let here =
            Side { state: present.state, skipped: &present.skipped, partial: &present.partial };
        let there = Side {
            state: target.manifest.state_of(Facet::Files),
            skipped: &files.skipped,
            partial: &target.manifest.partial_reasons,
        };
        let selects = |path: &RelPath, is_folder: bool| !by_rules || rules.selects(path, is_folder);
        // Repositories that go do so before the files.
        let probe = WithoutProbe { root: RootProbe(&root), gone: going(&git.plan) };
        let mut plan = plan_files(&here, &there, changes, scope, &selects, &probe)?;
        plan.warnings.extend(rules.warning());
        Ok(plan)
    }
}

/// Whether a checkpoint holds the work trees that are asked for: a slip would bring back less than
/// was meant.
pub(super) fn check_worktrees(target: &Manifest, options: &RestoreOptions) -> Result<()> {
    let parts = target.git.iter().flat_map(GitPart::repositories);
    let known: Vec<&str> =
        parts.flat_map(|(_, part)| part.worktrees.iter().map(|one| one.name.as_str())).collect();
    let unknown =
        options.worktrees.iter().find(|name| *name != "all" && !known.contains(&name.as_str()));
    let Some(name) = unknown else { return Ok(()) };
    Err(Error::NotThere {
        message: format!("{} holds no work tree {name}", target.id),
        advice: match known.is_empty() {
            true => "it holds none".into(),
            false => format!("it holds {}", known.join(", ")).into(),
        },
    })
}

/// A path that neither the checkpoint nor the present knows is a mistake of the caller.
fn check_paths(
    options: &RestoreOptions,
    changes: &[Change],
    source: &dyn Source,
    present: &Present,
    target: &Target,
) -> Result<()> {
    for path in options.named_paths() {
        refuse_as_file(&target.manifest, path)?;
        let files = target.files()?;
        let known = changes.iter().any(|change| change.path.is_within(path))
            || tree::lookup(source, &files.tree, path)?.is_some()
            || tree::lookup(source, &present.tree, path)?.is_some();
        if !known {
            return Err(Error::NoPath {
                checkpoint: target.manifest.id.to_string(),
                path: path.to_string(),
            });
        }
    }
    Ok(())
}
