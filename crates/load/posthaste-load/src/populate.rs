//! `posthaste-load populate`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use posthaste_load_drive::populate::{Contents, PopulateOptions, populate};
use posthaste_load_drive::run::refuse_wrong_protocols;
use posthaste_load_drive::{Accounts, Scheme};
use posthaste_load_text::quantity::{show_bytes, show_duration};
use posthaste_load_workload::corpus::{Sizes, UserMail};
use posthaste_load_workload::{self as workload, Mix, Workload};

use crate::failure::Failure;
use crate::server::{AccountArgs, ConnectionArgs, target};

/// Flags of `populate`.
///
/// The contents of accounts come from a workload (--workload), or from --inbox, --folders,
/// --per-folder and --sizes. An interrupted populate continues when it is started again with the
/// same flags.
#[derive(Args)]
pub struct PopulateArgs {
    /// The server: imap://HOST:PORT, imaps://… or imap+starttls://….
    #[arg(long, value_name = "URL", required_unless_present = "pop3")]
    imap: Option<String>,
    /// A server without IMAP: pop3://HOST:PORT, pop3s://… or pop3+starttls://…. It only counts what
    /// --send delivers, so there are no folders besides INBOX.
    #[arg(long, value_name = "URL", requires = "send", conflicts_with = "imap")]
    pop3: Option<String>,
    /// Deliver INBOX mail by lmtp:// or smtp:// instead of APPEND.
    #[arg(long, value_name = "URL")]
    send: Option<String>,
    #[command(flatten)]
    accounts: AccountArgs,
    /// Fill accounts as this workload defines. In a mix of users, the workload of each kind defines
    /// the contents of its accounts.
    #[arg(long, value_name = "NAME-OR-FILE")]
    workload: Option<String>,
    /// Messages in INBOX.
    #[arg(long, value_name = "N")]
    inbox: Option<u32>,
    /// Folders besides INBOX.
    #[arg(long, value_name = "N")]
    folders: Option<u32>,
    /// Messages in each folder.
    #[arg(long, value_name = "N")]
    per_folder: Option<u32>,
    /// Sizes: html, wide, fixed:10k, lognormal:17k, uniform:1k-10k, histogram:1k=50,10k=30.
    #[arg(long, value_name = "DISTRIBUTION")]
    sizes: Option<Sizes>,
    /// Fill with this mail instead of generated messages: an mbox file, a Maildir, a folder of .eml
    /// files.
    #[arg(long, value_name = "PATH")]
    mail: Option<PathBuf>,
    /// Seed of the corpus.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Accounts filled at the same time.
    #[arg(long, value_name = "N", default_value_t = 4)]
    parallel: usize,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Show no progress.
    #[arg(long)]
    quiet: bool,
}

/// Populates.
pub fn main(args: PopulateArgs) -> Result<(), Failure> {
    let mix = args.workload.as_deref().map(workload::load_mix).transpose().map_err(Failure::usage)?;
    let parts = parts(&args, mix.as_ref())?;
    let mail = args.mail.as_deref().map(UserMail::open).transpose().map_err(Failure::usage)?;
    let senders = [Scheme::Smtp, Scheme::Lmtp];
    let server = match (&args.imap, &args.pop3) {
        (Some(url), _) => target(url, &[Scheme::Imap], "--imap")?,
        (None, Some(url)) => target(url, &[Scheme::Pop3], "--pop3")?,
        (None, None) => return Err(Failure::usage("give --imap, or --pop3 and --send")),
    };
    let lmtp = args.send.as_deref().map(|url| target(url, &senders, "--send")).transpose()?;
    let dialer = args.connection.dialer([&server].into_iter().chain(&lmtp))?;
    refuse_wrong_protocols(&dialer, [&server].into_iter().chain(&lmtp)).map_err(Failure::usage)?;
    let mut mail = mail;
    for (accounts, contents) in parts {
        fill(PopulateOptions {
            server: server.clone(),
            lmtp: lmtp.clone(),
            accounts,
            contents,
            seed: args.seed,
            mail: mail.take(),
            parallel: args.parallel,
            dialer: dialer.clone(),
            live: !args.quiet,
        })?;
    }
    Ok(())
}

/// Fills accounts of the same contents.
fn fill(options: PopulateOptions) -> Result<(), Failure> {
    let (per_account, count) = (options.contents.messages(), options.accounts.count());
    let start = Instant::now();
    let done = populate(options).map_err(Failure::failed)?;
    println!(
        "{} messages added ({}) in {}, {} existed; the target is {count} accounts of {per_account} messages",
        done.added,
        show_bytes(done.bytes),
        show_duration(start.elapsed().max(Duration::from_millis(1))),
        done.found,
    );
    if done.failed > 0 {
        return Err(Failure::failed(format!("{} accounts could not be filled", done.failed)));
    }
    if done.interrupted {
        return Err(Failure::failed("interrupted; run the same command again to continue"));
    }
    Ok(())
}

/// The accounts and their contents: one part, or one for each kind of users of a mix.
fn parts(args: &PopulateArgs, mix: Option<&Mix>) -> Result<Vec<(Accounts, Contents)>, Failure> {
    let accounts = args.accounts.accounts()?;
    let Some(mix) = mix else { return Ok(vec![(accounts, contents(args, None)?)]) };
    if args.mail.is_some() && mix.kinds.len() > 1 {
        return Err(Failure::usage("a mix of users is filled with generated mail: leave --mail out"));
    }
    let split = mix.split(accounts.count()).ok_or_else(|| {
        Failure::usage(format!("{} has {} kinds of users: name as many accounts", mix.name, mix.kinds.len()))
    })?;
    let mut from = 0;
    mix.kinds
        .iter()
        .zip(split)
        .map(|(kind, count)| {
            let part = accounts.part(from, count);
            from += count;
            Ok((part, contents(args, Some(&kind.workload))?))
        })
        .collect()
}

fn contents(args: &PopulateArgs, workload: Option<&Workload>) -> Result<Contents, Failure> {
    let shares = workload.map(|w| w.shares).unwrap_or_default();
    let fill = workload.map(|w| w.fill.clone());
    let contents = Contents::new(
        args.inbox.or(fill.as_ref().map(|f| f.inbox)).unwrap_or(0),
        args.folders.or(fill.as_ref().map(|f| f.folders)).unwrap_or(0),
        args.per_folder.or(fill.as_ref().map(|f| f.per_folder)).unwrap_or(0),
        args.sizes.clone().or(fill.map(|f| f.sizes)).unwrap_or(Sizes::Html),
    )
    .with_shares(shares);
    if contents.messages() == 0 {
        return Err(Failure::usage(
            "nothing to fill in: give --workload, or --inbox, or --folders and --per-folder",
        ));
    }
    Ok(contents)
}
