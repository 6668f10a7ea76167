//! `posthaste export`: an account's mail into files.

use posthaste_delivery::export::{ExportReport, MailFormat};

use crate::cli::{Export, ExportFormat};
use crate::command::import::spinner;
use crate::command::names::{full_name, mailbox_name};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open;

pub async fn run(config: Config, options: Export) -> Result<()> {
    let opened = open::existing(&config).await?;
    let account = opened.found(&full_name(&options.account, &config)).await?;
    let mailbox = options.mailbox.as_deref().map(mailbox_name).transpose()?;
    let format = match options.format {
        ExportFormat::Mbox => MailFormat::Mbox,
        ExportFormat::Maildir => MailFormat::Maildir,
    };
    let bar = spinner("exported");
    let mut progress = |report: &ExportReport| bar.set_position(report.messages);
    let report =
        opened.delivery.export(account.id, mailbox.as_ref(), format, &options.target, &mut progress).await?;
    bar.finish_and_clear();
    for fault in &report.faults {
        eprintln!("posthaste: {fault}");
    }
    println!(
        "exported {} messages of {} mailboxes to {}",
        report.messages,
        report.mailboxes,
        options.target.display()
    );
    match report.failed {
        0 => Ok(()),
        n => Err(Failure::Incomplete(format!(
            "{n} messages could not be read; the first of them are named above"
        ))),
    }
}
