//! Files of a run or study: `results.json`, CSV, Markdown, `report.html`. And the summary printed
//! at the end.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use posthaste_load_results::{Offered, Results, RunResult, Summary};
use posthaste_load_text::for_terminal;

use crate::{csv, generators, html, markdown};

/// Makes the directory; one that holds results is left alone unless `force`.
pub fn prepare(dir: &Path, force: bool) -> io::Result<()> {
    let unfinished = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().ends_with(UNFINISHED);
    let used = fs::read_dir(dir).is_ok_and(|entries| entries.flatten().any(|entry| !unfinished(&entry)));
    if used && !force {
        let what = format!("{} exists and is not empty; --force overwrites what is in it", dir.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    fs::create_dir_all(dir)
}

/// Refuses what is in the place of a file: a file unless `force`, and a link or a device always.
/// Another user may have made the link, and root would write to its target.
pub fn prepare_file(file: &Path, force: bool) -> io::Result<()> {
    // The file is written beside it first: see `replace`.
    for file in [file, part_of(file).as_path()] {
        let why = match fs::symlink_metadata(file) {
            Ok(there) if !there.is_file() => "is a link, or no file: name another one by --out",
            Ok(_) if !force => "exists; --force overwrites it",
            // An error of the folder is one of the write, too.
            _ => continue,
        };
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} {why}", file.display())));
    }
    Ok(())
}

/// Writes everything.
pub fn write(dir: &Path, results: &Results) -> io::Result<()> {
    save(dir, results)?;
    for (name, text) in csv::files(results) {
        replace(&dir.join(name), text.as_bytes())?;
    }
    if let Results::Study(study) = results {
        replace(&dir.join("tables.md"), markdown::of_study(study).as_bytes())?;
    }
    replace(&dir.join("report.html"), html(std::slice::from_ref(results)).as_bytes())
}

/// Writes `results.json` alone, which has everything.
pub fn save(dir: &Path, results: &Results) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    replace(&dir.join("results.json"), &serde_json::to_vec(results)?)
}

/// Ends the name of a file that is being written.
const UNFINISHED: &str = ".part";

/// Where a file is written before it has its name.
fn part_of(file: &Path) -> PathBuf {
    let mut part = file.as_os_str().to_owned();
    part.push(UNFINISHED);
    part.into()
}

/// Replaces a file as a whole: whatever ends the program, the old or the new one is there.
///
/// The part beside it is always a new file. Another user who may write to the directory could have
/// put a link there, and root would write to its target. A link in the place of the file itself is
/// replaced, and not followed.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", file.display()));
    let beside = part_of(file);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(error)),
        _ => {}
    }
    let mut new = fs::OpenOptions::new().write(true).create_new(true).open(&beside).map_err(named)?;
    new.write_all(bytes).and_then(|()| new.sync_all()).map_err(named)?;
    fs::rename(&beside, file).map_err(named)
}

/// Whether a directory has results.
pub fn has_results(dir: &Path) -> bool {
    dir.join("results.json").exists()
}

/// Reads what [`write()`] wrote.
pub fn read(dir: &Path) -> io::Result<Results> {
    let file = if dir.is_dir() { dir.join("results.json") } else { dir.to_owned() };
    let named = |e: io::Error| {
        let remedy = match e.kind() {
            io::ErrorKind::NotFound => ": name a folder that run, study, regress or merge wrote (--out)",
            _ => "",
        };
        io::Error::new(e.kind(), format!("{}: {e}{remedy}", file.display()))
    };
    let text = fs::read(&file).map_err(named)?;
    serde_json::from_slice(&text).map_err(|e| named(io::Error::new(io::ErrorKind::InvalidData, e)))
}

/// The summary at the end of a run, for a person. A run with errors says so in its first line.
pub fn summary(run: &RunResult) -> String {
    let mut text = format!("{}\n\n", run.outcome.headline);
    text.push_str(&format!(
        "{:<22} {:>6} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>6}\n",
        "transaction", "asked", "got", "count", "/s", "mean ms", "p50 ms", "p99 ms", "max ms", "errors"
    ));
    let share = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{:.1}%", x * 100.0));
    let mut row = |name: &str, asked: Option<f64>, got: Option<f64>, s: &Summary| {
        text.push_str(&format!(
            "{name:<22} {:>6} {:>7} {:>8} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>9.2} {:>6}\n",
            share(asked),
            share(got),
            s.count,
            s.rate_per_s,
            s.mean_ms,
            s.p50_ms,
            s.p99_ms,
            s.max_ms,
            s.errors
        ));
    };
    for t in &run.transactions {
        row(&t.name, t.share_asked, t.share_asked.map(|_| t.share_realised), &t.summary);
    }
    row("total", None, None, &run.total);
    text.push('\n');
    text.push_str(&cost(run));
    text.push_str(&generators::lines(run));
    for error in &run.errors {
        text.push_str(&format!("\n{} × {}\n", error.count, error.kind));
        if let Some(sample) = error.samples.first() {
            text.push_str(&format!(
                "  {} in {} at {:.1} s: {}\n",
                sample.user, sample.transaction, sample.at_s, sample.what
            ));
            sample.transcript.lines().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
    }
    if let Some(audit) = &run.audit {
        text.push_str(&format!(
            "\naudit: {} accounts, {} messages found, {} expected; {} missing, {} duplicated, {} unexpected, {} altered, {} UIDs given twice\n",
            audit.accounts,
            audit.messages_found,
            audit.messages_expected,
            audit.missing,
            audit.duplicated,
            audit.unexpected,
            audit.altered,
            audit.reused
        ));
        audit.findings.iter().take(10).for_each(|f| text.push_str(&format!("  {f}\n")));
    }
    for caveat in &run.caveats {
        text.push_str(&format!("note: {caveat}\n"));
    }
    for_terminal(&text)
}

fn cost(run: &RunResult) -> String {
    let mut text = String::new();
    if let Some(s) = &run.server {
        let per = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.4}"));
        let memory = match &s.pss_max_bytes {
            Offered::Value(bytes) => posthaste_load_text::quantity::show_bytes(*bytes),
            Offered::NotOffered(why) => format!("not offered here ({why})"),
        };
        text.push_str(&format!(
            "server: {:.2} s CPU ({:.2} user, {:.2} system) in {:.1} s = {:.1} % of the machine; megacycles per session {}, \
             per message {}, per transaction {}; memory at most {memory}\n",
            s.cpu_user_s + s.cpu_system_s,
            s.cpu_user_s,
            s.cpu_system_s,
            s.seconds,
            s.cpu_percent,
            per(s.megacycles_per_session),
            per(s.megacycles_per_message),
            per(s.megacycles_per_transaction)
        ));
    }
    let g = &run.generator;
    text.push_str(&format!(
        "generator: {:.2} s CPU{}{}, {} resident\n",
        g.cpu_user_s + g.cpu_system_s,
        g.cpu_us_per_transaction.map_or(String::new(), |us| format!(", {us:.0} µs per transaction")),
        g.share_of_server.map_or(String::new(), |s| format!(", {:.1} % of the server's", s * 100.0)),
        posthaste_load_text::quantity::show_bytes(g.rss_max_bytes)
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_stay_in_columns_of_their_own() {
        let mut run = crate::sample::run("Posthaste", 90, 1.0);
        let first = &mut run.transactions[0].summary;
        (first.mean_ms, first.p50_ms, first.p99_ms, first.max_ms) =
            (300_008.84, 300_154.88, 300_154.88, 3_600_000.0);
        let text = summary(&run);
        let row = text.lines().find(|l| l.starts_with(&run.transactions[0].name)).unwrap();
        let cells: Vec<&str> = row.split_ascii_whitespace().collect();
        assert_eq!(cells[5..9], ["300008.84", "300154.88", "300154.88", "3600000.00"], "{row}");
    }

    #[test]
    fn a_servers_words_do_not_move_the_cursor() {
        let mut run = crate::sample::run("Posthaste", 90, 1.0);
        run.caveats.push("login refused: \u{1b}[2J\u{1b}[1;1Hno errors".into());
        let text = summary(&run);
        assert!(text.contains("note: login refused: \\u{1b}[2J"), "{text}");
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }

    #[test]
    fn a_folder_without_a_result_is_named_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        for place in [dir.path().to_owned(), dir.path().join("not-there")] {
            let said = read(&place).unwrap_err().to_string();
            assert!(said.starts_with(&place.display().to_string()) && said.contains("(--out)"), "{said}");
        }
        fs::write(dir.path().join("results.json"), "{").unwrap();
        let said = read(dir.path()).unwrap_err().to_string();
        assert!(said.contains("results.json: ") && !said.contains("--out"), "{said}");
    }

    #[test]
    fn a_directory_in_use_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        assert!(prepare(dir.path(), false).is_ok());
        fs::write(dir.path().join("x"), "y").unwrap();
        assert!(prepare(dir.path(), false).unwrap_err().to_string().contains("--force"));
        assert!(prepare(dir.path(), true).is_ok());
    }

    #[test]
    fn a_link_in_the_place_of_a_part_is_not_followed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let other = elsewhere.path().join("other");
        fs::write(&other, "of root").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("results.json.part")).unwrap();
        // A part alone does not make a directory one in use.
        prepare(dir.path(), false).unwrap();
        save(dir.path(), &Results::Run(Box::new(crate::sample::run("first", 1, 1.0)))).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "of root");
        assert!(!dir.path().join("results.json").is_symlink() && read(dir.path()).is_ok());
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_refused_and_never_followed() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (file, new) = (dir.path().join("x.html"), elsewhere.path().join("new"));
        let refusal = |force| prepare_file(&file, force).unwrap_err().to_string();
        assert!(prepare_file(&file, false).is_ok());
        std::os::unix::fs::symlink(&new, &file).unwrap();
        assert!(refusal(false).contains("x.html is a link") && refusal(true).contains("x.html is a link"));
        // It may also come after the check.
        replace(&file, b"text").unwrap();
        assert!(!new.exists() && !file.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
        assert!(refusal(false).contains("--force") && prepare_file(&file, true).is_ok());
        // A file of somebody's has the name under which it is written.
        fs::remove_file(&file).unwrap();
        fs::write(part_of(&file), "").unwrap();
        assert!(refusal(false).contains("x.html.part exists"));
    }

    #[test]
    fn a_result_is_the_old_or_the_new_one_and_never_a_part() {
        let dir = tempfile::tempdir().unwrap();
        let label = |results: &Results| match results {
            Results::Run(run) => run.label.clone(),
            Results::Study(study) => study.study.clone(),
        };
        let result = |name: &str| Results::Run(Box::new(crate::sample::run(name, 1, 1.0)));
        // A program that was killed while it wrote the first result has left a part of it.
        let part = dir.path().join("results.json.part");
        fs::write(&part, "{\"kind\":").unwrap();
        assert!(prepare(dir.path(), false).is_ok() && !has_results(dir.path()));
        save(dir.path(), &result("first")).unwrap();
        assert_eq!((label(&read(dir.path()).unwrap()).as_str(), part.exists()), ("first", false));
        // The new one cannot be written: the old one stays as it is.
        fs::create_dir(&part).unwrap();
        let said = save(dir.path(), &result("second")).unwrap_err().to_string();
        assert!(said.contains("results.json"), "{said}");
        assert_eq!(label(&read(dir.path()).unwrap()), "first");
    }
}
