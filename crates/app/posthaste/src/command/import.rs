//! `posthaste import`: mail from files into an account.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use posthaste_delivery::import::{ImportError, ImportOptions, ImportReport};

use crate::cli::Import;
use crate::command::{full_name, mailbox_name};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open;

pub async fn run(config: Config, options: Import) -> Result<()> {
    let opened = open::existing(&config).await?;
    let account = opened.found(&full_name(&options.account, &config)).await?;
    let mailbox = options.mailbox.as_deref().map(mailbox_name).transpose()?;
    let bar = spinner("imported");
    let (mut messages, mut failed) = (0, 0);
    for source in &options.sources {
        let into = ImportOptions { mailbox: mailbox.clone() };
        let mut progress = |report: &ImportReport| {
            bar.set_position(messages + report.messages);
        };
        let report = match opened.delivery.import(&account, source, &into, &mut progress).await {
            Ok(report) => report,
            // What cannot be read is no reason to leave out what stands beside it.
            Err(error @ ImportError::Source { .. }) if options.sources.len() > 1 => {
                failed += 1;
                bar.suspend(|| eprintln!("posthaste: {error}"));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        messages += report.messages;
        failed += report.failed;
        bar.suspend(|| report.faults.iter().for_each(|fault| eprintln!("posthaste: {fault}")));
    }
    bar.finish_and_clear();
    println!("imported {messages} messages into {}", account.name);
    if failed > 0 {
        return Err(Failure::Incomplete(format!(
            "{failed} messages or files could not be taken whole; the first of them are named above"
        )));
    }
    Ok(())
}

/// Work whose length nobody knows beforehand: a count and a rate.
pub fn spinner(done: &'static str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(&format!("{{spinner}} {done} {{human_pos}} messages, {{per_sec}}"));
    let bar =
        ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
