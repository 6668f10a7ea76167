//! `posthaste retention`: applies rules that move or delete old mail. A dry run without --apply.

use std::io::Write as _;

use bytesize::ByteSize;
use posthaste_retention::{Action, Mode, Outcome, Retention, RetentionError, Rule, RuleError, Target};
use serde_json::json;

use crate::cli;
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open;

pub async fn run(config: Config, command: cli::Retention) -> Result<()> {
    let rules = rules(&config, &command)?;
    let opened = open::existing(&config).await?;
    let retention = Retention::new(opened.store.clone(), opened.directory.clone());
    let mode = if command.apply { Mode::Apply } else { Mode::DryRun };
    let (mut messages, mut octets, mut failed, mut written) = (0, 0, 0, Ok(()));
    let mut report = |outcome: std::result::Result<Outcome, RetentionError>| {
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                eprintln!("posthaste: {error}");
                failed += 1;
                return;
            }
        };
        messages += outcome.messages;
        octets += outcome.octets;
        if written.is_ok() {
            written = write(&outcome, command.json);
        }
    };
    match &command.account {
        Some(name) => {
            let account = opened.found(&full_name(name, &config)).await?;
            retention.run_account(&account, &rules, mode, &mut report).await;
        }
        None => retention.run(&rules, mode, &mut report).await?,
    }
    written?;
    if !command.json {
        let size = ByteSize::b(octets).display().iec();
        match mode {
            Mode::Apply => println!("{messages} messages, {size}"),
            Mode::DryRun if messages == 0 && failed == 0 => {
                println!("no message is selected, so nothing would be changed");
            }
            Mode::DryRun => {
                println!("{messages} messages, {size}: nothing was changed; add --apply to do it");
            }
        }
    }
    if failed > 0 {
        return Err(Failure::Incomplete(format!(
            "{failed} errors, named above. Messages that were not moved stay where they were; run the command again"
        )));
    }
    Ok(())
}

/// The rule of the command line, or else those of the configuration.
fn rules(config: &Config, command: &cli::Retention) -> Result<Vec<Rule>> {
    let Some(mailbox) = &command.mailbox else {
        let rules = config.retention.rules();
        if rules.is_empty() {
            let why = "`retention.rules` is empty: write rules into the configuration (`posthaste config --default` \
                       describes them), or give one with --mailbox, --to, --older-than and --keep-newest";
            return Err(Failure::Usage(why.into()));
        }
        return Ok(rules);
    };
    // The parser of the command line requires both.
    let Some(action) = command.to else { return Err(Failure::Usage("--mailbox needs --to".into())) };
    let rule = Rule {
        accounts: vec!["*".to_owned()],
        mailbox: mailbox.clone(),
        older_than: command.older_than.map(Into::into),
        keep_newest: command.keep_newest,
        keep_flagged: !command.flagged_too,
        age_from: None,
        action: match action {
            cli::RetentionTarget::Trash => Action::Trash,
            cli::RetentionTarget::Archive => Action::Archive,
            cli::RetentionTarget::Nowhere => Action::Delete,
        },
    };
    rule.check().map_err(|error| Failure::Usage(in_flags(&error)))?;
    Ok(vec![rule])
}

/// The fault of a rule, with flags of the command line in place of the configuration's fields.
fn in_flags(error: &RuleError) -> String {
    let fields = [
        ("`older_than`", "--older-than"),
        ("`keep_newest`", "--keep-newest"),
        ("`mailbox`", "--mailbox"),
        ("`action` = \"trash\"", "--to trash"),
        ("set \"delete\"", "take --to nowhere"),
    ];
    fields.iter().fold(error.to_string(), |text, (field, flag)| text.replace(field, flag))
}

fn write(outcome: &Outcome, as_json: bool) -> std::io::Result<()> {
    let Outcome { account, folder, rule, target, messages, octets } = outcome;
    let to = match target {
        Target::Folder(name) => Some(name.as_str()),
        Target::Nowhere => None,
    };
    let mut out = std::io::stdout().lock();
    if as_json {
        let line = json!({
            "account": account, "folder": folder.as_str(), "rule": rule + 1, "to": to,
            "messages": messages, "bytes": octets,
        });
        return writeln!(out, "{line}");
    }
    let size = ByteSize::b(*octets).display().iec().to_string();
    let to = to.map_or("deleted".to_owned(), |name| format!("to {name}"));
    writeln!(out, "{messages:>9} messages {size:>12}  {account}  {folder}: {to} (rule {})", rule + 1)
}
