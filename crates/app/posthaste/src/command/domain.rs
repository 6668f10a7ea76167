//! `posthaste domain`: the domains that this server sends for, their keys, and their DNS records.
//!
//! The printed records are a part of a zone file. Everything else in the output is a comment.

use std::io::Write as _;
use std::time::Duration;

use posthaste_authentication::dns::{Finding, Record, records};
use posthaste_authentication::sts::Published;
use posthaste_authentication::{DomainKeys, KeyState};
use posthaste_directory::{normal_domain, unix_time};
use posthaste_queue::date_time;
use posthaste_store::Engine;

use crate::cli;
use crate::command::serve;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::for_line;
use crate::open::{self, Opened};

/// Domains read at a time when listing.
const PAGE: usize = 200;
/// Receivers hand mail on, and look at signatures again, for some time after it has left here.
const RECEIVERS_TAKE: Duration = Duration::from_secs(2 * 24 * 60 * 60);

pub async fn run(config: Config, command: cli::Domain) -> Result<()> {
    use cli::Domain as Command;
    match command {
        Command::Add { name } => add(&config, &normal(&name)?).await,
        Command::List => list(&open::existing(&config).await?).await,
        Command::Show { name } => {
            let (_, keys) = found(&config, &name).await?;
            show(&config, &keys)
        }
        Command::Check { name } => {
            let (_, keys) = found(&config, &name).await?;
            check(&config, &keys).await
        }
        Command::Rotate { name, finish, force } => {
            let (opened, keys) = found(&config, &name).await?;
            let engine = &**opened.store.engine();
            if finish {
                finish_rotation(&config, engine, keys, force).await
            } else {
                rotate(&config, engine, keys).await
            }
        }
        Command::Remove { name, yes } => {
            let (opened, keys) = found(&config, &name).await?;
            remove(&opened, keys, yes).await
        }
    }
}

fn normal(name: &str) -> Result<String> {
    normal_domain(name.strip_suffix('.').unwrap_or(name))
        .map_err(|_| Failure::Usage(format!("{name:?} is not a domain; write for example example.org")))
}

async fn found(config: &Config, name: &str) -> Result<(Opened, DomainKeys)> {
    let name = normal(name)?;
    let opened = open::existing(config).await?;
    let keys = DomainKeys::find(&**opened.store.engine(), &name).await?;
    let missing = || {
        Failure::Usage(format!(
            "{name} is not set up: `posthaste domain list` names those that are, `posthaste domain add {name}` sets it up"
        ))
    };
    Ok((opened, keys.ok_or_else(missing)?))
}

async fn add(config: &Config, name: &str) -> Result<()> {
    let opened = open::create(config).await?;
    let engine = &**opened.store.engine();
    if DomainKeys::find(engine, name).await?.is_some() {
        return Err(Failure::Usage(format!(
            "{name} is set up already; `posthaste domain show {name}` prints its records"
        )));
    }
    let mut keys = DomainKeys::new(name);
    keys.generate(KeyState::Signing, unix_time::now_signed())?;
    // First: from the moment there are keys, the domain's mail comes and goes here.
    opened.directory.add_domain(name).await?;
    keys.save(engine).await?;
    println!("; {name} is set up: its mail is signed, and users may send to other domains.");
    show(config, &keys)
}

fn show(config: &Config, keys: &DomainKeys) -> Result<()> {
    let host = serve::hostname(config);
    if !host.contains('.') {
        eprintln!(
            "posthaste: `hostname` is \"{host}\": set it to the name of this server that others find in DNS"
        );
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "; Publish these records in the zone of {}:", keys.domain)?;
    let states = [KeyState::Signing, KeyState::Next];
    print(&mut out, &records(keys, &states, &host, policy(config).as_ref()))?;
    if config.listen.https.is_empty() {
        writeln!(out, "; With `listen.https` set this server serves an MTA-STS policy for the domain, too.")?;
    }
    writeln!(out, "; `posthaste domain check {}` checks whether they are published.", keys.domain)?;
    Ok(())
}

/// The policy about TLS that is published: none if it is not served.
fn policy(config: &Config) -> Option<Published> {
    let is_served = !config.listen.https.is_empty();
    is_served.then(|| config.mta_sts.published(&serve::hostname(config)))
}

fn print(out: &mut impl std::io::Write, records: &[Record]) -> Result<()> {
    for record in records {
        writeln!(out, "; {}", record.purpose)?;
        writeln!(out, "{}", record.zone_line())?;
    }
    Ok(())
}

async fn list(opened: &Opened) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut after: Option<String> = None;
    loop {
        let page = DomainKeys::list(&**opened.store.engine(), after.as_deref(), PAGE).await?;
        for domain in &page {
            write!(out, "{}", domain.domain)?;
            for (state, word) in [(KeyState::Signing, "signs with"), (KeyState::Next, "next")] {
                let selectors: Vec<&str> = domain.in_state(state).map(|key| key.selector.as_str()).collect();
                if !selectors.is_empty() {
                    write!(out, "\t{word} {}", selectors.join(", "))?;
                }
            }
            writeln!(out)?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = Some(last.domain.clone()),
            _ => return Ok(()),
        }
    }
}

/// Looks up records in DNS and prints their states; the number of those without which mail fails.
async fn compare(config: &Config, records: &[Record]) -> Result<usize> {
    let dns = config.relay.dns()?;
    let mut failing = 0;
    for record in records {
        let finding = record.check(dns.resolver()).await;
        println!("{}", shown(record, &finding));
        failing += usize::from(record.fails_with(&finding));
    }
    Ok(failing)
}

/// The state of a record, in lines. The owner of the domain's name servers writes what is there.
fn shown(record: &Record, finding: &Finding) -> String {
    let (name, content) = (&record.name, record.content());
    match finding {
        Finding::Right => format!("right    {name} {content}"),
        Finding::Missing => format!("missing  {name} {content}"),
        Finding::Unknown(why) => format!("unknown  {name} {content}\n         {}", for_line(why)),
        Finding::Differs(there) => {
            let begin = format!("differs  {name}\n  wanted {content}");
            there.iter().fold(begin, |lines, one| lines + "\n  there  " + &for_line(one))
        }
    }
}

/// Fetches the policy as others do, and prints the result.
async fn compare_policy(config: &Config, domain: &str, policy: &Published) -> Result<()> {
    let dns = config.relay.dns()?;
    let page = format!("https://mta-sts.{domain}/.well-known/mta-sts.txt");
    match config.relay.tls()?.fetch_policy(&dns, domain, config.relay.sts_port).await {
        Ok(text) if text == policy.text() => println!("right    {page}"),
        Ok(text) => println!("differs  {page}\n  wanted {:?}\n  there  {text:?}", policy.text()),
        Err(why) => println!("unknown  {page}\n         {}", for_line(&why)),
    }
    Ok(())
}

async fn check(config: &Config, keys: &DomainKeys) -> Result<()> {
    let policy = policy(config);
    let records = records(keys, &[KeyState::Signing], &serve::hostname(config), policy.as_ref());
    let failing = compare(config, &records).await?;
    if let Some(policy) = policy {
        compare_policy(config, &keys.domain, &policy).await?;
    }
    match failing {
        0 => Ok(()),
        failing => Err(Failure::Incomplete(format!(
            "other servers may refuse mail of {}: {failing} records are missing or wrong; `posthaste domain show \
             {}` prints them",
            keys.domain, keys.domain
        ))),
    }
}

/// The records of the keys that sign next.
fn next_records(config: &Config, keys: &DomainKeys) -> Vec<Record> {
    let mut only = DomainKeys::new(&keys.domain);
    only.keys = keys.in_state(KeyState::Next).cloned().collect();
    let all = records(&only, &[KeyState::Next], &serve::hostname(config), None);
    all.into_iter().filter(|record| record.is_exact).collect()
}

async fn rotate(config: &Config, engine: &dyn Engine, mut keys: DomainKeys) -> Result<()> {
    let name = keys.domain.clone();
    if keys.in_state(KeyState::Next).next().is_none() {
        keys.forget_retired(unix_time::now_signed().saturating_sub(stays_s(config)));
        keys.generate(KeyState::Next, unix_time::now_signed())?;
        keys.save(engine).await?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "; {name} has new keys; the old ones sign until these records are published:")?;
    print(&mut out, &next_records(config, &keys))?;
    writeln!(out, "; Then `posthaste domain rotate {name} --finish` lets the new keys sign.")?;
    Ok(())
}

/// The time for which the record of a retired key must stay: mail that it signed may wait here,
/// and then at others.
fn stays_s(config: &Config) -> i64 {
    unix_time::seconds(config.relay.expire_after + RECEIVERS_TAKE)
}

async fn finish_rotation(
    config: &Config,
    engine: &dyn Engine,
    mut keys: DomainKeys,
    force: bool,
) -> Result<()> {
    let name = keys.domain.clone();
    let next = next_records(config, &keys);
    if next.is_empty() {
        return Err(Failure::Usage(format!(
            "{name} has no new keys; `posthaste domain rotate {name}` makes them"
        )));
    }
    if !force && compare(config, &next).await? > 0 {
        return Err(Failure::Incomplete(format!(
            "the old keys of {name} still sign: not all new records are published (--force skips this check)"
        )));
    }
    let old: Vec<String> = keys.in_state(KeyState::Signing).map(|key| key.selector.clone()).collect();
    keys.switch(unix_time::now_signed());
    keys.save(engine).await?;
    println!("the new keys of {name} sign; the private parts of the old ones are removed");
    for selector in old {
        println!(
            "the record {selector}._domainkey.{name} may be removed after {}",
            date_time(unix_time::now_signed().saturating_add(stays_s(config)))
        );
    }
    Ok(())
}

async fn remove(opened: &Opened, keys: DomainKeys, yes: bool) -> Result<()> {
    let name = keys.domain.clone();
    if !yes {
        print!("Remove the keys of {name}? Its mail is no longer signed. Type the name to go on: ");
        std::io::stdout().flush()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if answer.trim() != name {
            return Err(Failure::Usage("not removed: type the name, or use --yes".into()));
        }
    }
    keys.remove(&**opened.store.engine()).await?;
    println!("removed the keys of {name}; its addresses still get mail");
    if !DomainKeys::any(&**opened.store.engine()).await? {
        println!(
            "no domain is left: with `relay.enabled = \"auto\"` a server that starts now sends no mail to other \
             domains"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The domain may be a customer's, and its name servers too.
    #[test]
    fn what_is_in_dns_controls_no_terminal() {
        let keys = DomainKeys::new("example.org");
        let all = records(&keys, &[KeyState::Signing], "mail.example.org", None);
        let spf = all.iter().find(|record| record.content().starts_with("TXT v=spf1")).unwrap();
        let there = vec!["v=spf1 \u{1b}[2J\nright    x\u{9b}1A".to_owned(), "v=spf1 ü".to_owned()];
        assert_eq!(
            shown(spf, &Finding::Differs(there)),
            "differs  example.org\n  wanted TXT v=spf1 mx -all\n  there  v=spf1 \\u{1b}[2J\\nright    x\\u{9b}1A\n  \
             there  v=spf1 ü"
        );
        let unknown = shown(spf, &Finding::Unknown("no\r\nanswer".to_owned()));
        assert_eq!(unknown, "unknown  example.org TXT v=spf1 mx -all\n         no\\r\\nanswer");
    }
}
