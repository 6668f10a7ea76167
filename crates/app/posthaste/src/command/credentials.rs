//! Credentials of an account other than its password: `posthaste account app-password`, and the
//! certificates of `posthaste account set`.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posthaste_directory::{
    AppPassword, Directory, Fingerprint, NewAppPassword, Service, parse_fingerprint, print_fingerprint,
};
use serde_json::json;

use crate::cli;
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::{for_line, json_line};
use crate::open::{self, Opened};

/// The last second of the year 9999, since 1970. No later one can be printed, and a restore refuses
/// an app password that expires later.
const SECONDS_MAX: u64 = 253_402_300_799;

/// `posthaste account app-password`.
pub async fn run(config: Config, command: cli::AppPasswords) -> Result<()> {
    use cli::AppPasswords as Command;
    let opened = open::existing(&config).await?;
    match command {
        Command::Add { name, label, protocol, expires } => {
            let services = protocol.into_iter().map(service).collect();
            let expires = expires.map(|after| end_of(SystemTime::now(), after));
            let new = NewAppPassword { label, services, expires };
            let (made, password) =
                opened.directory.app_passwords().add(&full_name(&name, &config), new).await?;
            println!("{} is shown this once:", made.label);
            println!("  {}", password.expose());
            Ok(())
        }
        Command::List { name, json } => list(&opened, &full_name(&name, &config), json).await,
        Command::Remove { name, which } => {
            let removed = opened.directory.app_passwords().remove(&full_name(&name, &config), &which).await?;
            println!("removed {}; its sessions end", removed.label);
            Ok(())
        }
    }
}

/// Adds and removes certificates of an account.
pub async fn set_certificates(directory: &Directory, name: &str, change: &cli::Certificates) -> Result<()> {
    for given in &change.remove_certificate {
        directory.certificates().remove(name, fingerprint(given)?).await?;
    }
    for given in &change.certificate {
        directory.certificates().add(name, fingerprint(given)?).await?;
    }
    Ok(())
}

/// The certificates of an account, for people.
pub async fn certificates(directory: &Directory, name: &str) -> Result<Vec<String>> {
    Ok(directory.certificates().of(name).await?.iter().map(print_fingerprint).collect())
}

/// A fingerprint, or that of the certificate in a file.
fn fingerprint(given: &str) -> Result<Fingerprint> {
    if let Some(fingerprint) = parse_fingerprint(given) {
        return Ok(fingerprint);
    }
    let wrong = |why: String| {
        Failure::Usage(format!(
            "`{given}` is not a certificate: {why}; name a PEM file, or write its SHA-256 fingerprint (`openssl \
             x509 -noout \
             -fingerprint -sha256 -in FILE`)"
        ))
    };
    let pem = std::fs::read(Path::new(given)).map_err(|error| wrong(error.to_string()))?;
    posthaste_net::fingerprint_of_pem(&pem).ok_or_else(|| wrong("it has no `BEGIN CERTIFICATE`".into()))
}

async fn list(opened: &Opened, name: &str, json: bool) -> Result<()> {
    let account = opened.found(name).await?;
    for one in opened.directory.app_passwords().of(name).await? {
        let used = opened.directory.app_passwords().last_use(&account, one.id).await?;
        let services: Vec<&str> = one.services.iter().map(|service| service.name()).collect();
        if json {
            println!(
                "{}",
                json_line(&json!({"id": one.id.to_string(), "label": one.label, "protocols": services,
                       "created": one.created, "expires": one.expires, "last_use": used}))
            );
            continue;
        }
        println!("{:<24} {} {}", for_line(&one.label), one.id, words(&one, &services, used));
    }
    Ok(())
}

fn words(one: &AppPassword, services: &[&str], used: Option<u64>) -> String {
    let ended = one.has_ended(unix(SystemTime::now()));
    let protocols = if services.is_empty() { "every protocol".to_owned() } else { services.join(", ") };
    let mut text = format!("{protocols}; made {}", day(one.created));
    if let Some(expires) = one.expires {
        text += &format!("; {} {}", if ended { "expired" } else { "expires" }, day(expires));
    }
    text + &used.map_or("; never used".to_owned(), |used| format!("; last used {}", day(used)))
}

/// A day, as `2026-11-24`. All after the year 9999 are its last one: no later one can be printed.
fn day(seconds: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_secs(seconds.min(SECONDS_MAX));
    let text = humantime::format_rfc3339_seconds(at).to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

fn unix(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// When a time that begins now is over, unix seconds.
fn end_of(now: SystemTime, time: Duration) -> u64 {
    unix(now).saturating_add(time.as_secs()).min(SECONDS_MAX)
}

const fn service(given: cli::Scope) -> Service {
    match given {
        cli::Scope::Imap => Service::Imap,
        cli::Scope::Pop3 => Service::Pop3,
        cli::Scope::Submission => Service::Submission,
        cli::Scope::Sieve => Service::Sieve,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An account whose app password expired after the year 9999 could not be restored. A longer
    /// time ended the command.
    #[test]
    fn no_app_password_expires_after_the_year_9999() {
        let (now, day) = (UNIX_EPOCH + Duration::from_secs(5), Duration::from_secs(86_400));
        let ends = [day, 3_652_500 * day, Duration::MAX].map(|time| end_of(now, time));
        assert_eq!(ends, [86_405, SECONDS_MAX, SECONDS_MAX]);
    }

    #[test]
    fn each_second_has_a_day() {
        let seconds = [0, 1_795_000_000, 253_402_300_799, 253_402_300_800, u64::MAX];
        let days = ["1970-01-01", "2026-11-18", "9999-12-31", "9999-12-31", "9999-12-31"];
        assert_eq!(seconds.map(day), days);
    }
}
