//! Opens reports in a real browser: all charts must be drawn, in the light and the dark theme.
//!
//! Needs Chromium; without it these tests say so and do nothing. `POSTHASTE_KEEP_REPORTS=DIR` keeps
//! pages and pictures for people to look at.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use posthaste_load_results::Results;

use crate::{html, sample};

/// Chromium by the names it goes by; `None` after saying that it is not here.
fn chromium() -> Option<&'static str> {
    if std::env::var_os("POSTHASTE_TEST_CLIENTS").is_some_and(|v| v == "no") {
        eprintln!("skipped: POSTHASTE_TEST_CLIENTS=no");
        return None;
    }
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(runs);
    if found.is_none() {
        eprintln!("skipped: no Chromium here (Debian: apt-get install chromium)");
    }
    found
}

fn browse(chromium: &str, profile: &Path, page: &Path, flags: &[String]) -> Output {
    Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(flags)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap()
}

/// Opens the page in the browser: the text of its document, and the path of a picture of it.
fn render(
    name: &str,
    results: &[Results],
    theme: &str,
    height: u32,
) -> Option<(String, PathBuf, tempfile::TempDir)> {
    let chromium = chromium()?;
    let temporary = tempfile::tempdir().unwrap();
    let folder =
        std::env::var_os("POSTHASTE_KEEP_REPORTS").map_or(temporary.path().to_owned(), PathBuf::from);
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    let page = folder.join(format!("{name}-{theme}.html"));
    let themed =
        html(results).replace("<html lang=\"en\">", &format!("<html lang=\"en\" data-theme=\"{theme}\">"));
    std::fs::write(&page, themed).unwrap();
    let profile = temporary.path().join("profile");
    let dom = browse(chromium, &profile, &page, &["--dump-dom".into()]);
    assert!(dom.status.success(), "{}", String::from_utf8_lossy(&dom.stderr));
    let picture = folder.join(format!("{name}-{theme}.png"));
    let shot = [format!("--screenshot={}", picture.display()), format!("--window-size=1280,{height}")];
    let shot = browse(chromium, &profile, &page, &shot);
    assert!(picture.exists(), "{}", String::from_utf8_lossy(&shot.stderr));
    Some((String::from_utf8_lossy(&dom.stdout).into_owned(), picture, temporary))
}

/// Width and height of a PNG, from its header.
fn png_size(bytes: &[u8]) -> (u32, u32) {
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[test]
fn a_run_in_a_browser_by_day_and_by_night() {
    let results = [Results::Run(Box::new(sample::run_with_errors("Posthaste <b>")))];
    let mut pictures = Vec::new();
    for theme in ["light", "dark"] {
        let Some((dom, picture, _kept)) = render("run", &results, theme, 3600) else { return };
        for expected in
            ["12 ERRORS", "Before you believe a figure", "response time (ms, logarithmic)", "SELT", "99.9 %"]
        {
            assert!(dom.contains(expected), "{expected} is not on the page");
        }
        // The parsed page has no element from the server's name.
        assert!(dom.contains("Posthaste &lt;b&gt;"));
        let png = std::fs::read(picture).unwrap();
        assert_eq!(png_size(&png), (1280, 3600));
        // A blank picture of this size is a few kilobytes.
        assert!(png.len() > 100_000, "{} bytes", png.len());
        pictures.push(png);
    }
    assert_ne!(pictures[0], pictures[1], "night is as day");
}

#[test]
fn servers_beside_each_other_in_a_browser() {
    let results = [
        Results::Run(Box::new(sample::run("Posthaste", 90, 1.0))),
        Results::Run(Box::new(sample::run("Dovecot", 90, 2.1))),
        Results::Run(Box::new(sample::run("Cyrus", 30, 2.9))),
        Results::Run(Box::new(sample::run("Cyrus", 90, 3.2))),
        Results::Study(Box::new(sample::item_count(&["Posthaste", "Dovecot"]))),
    ];
    for theme in ["light", "dark"] {
        let Some((dom, picture, _kept)) = render("several", &results, theme, 6000) else { return };
        for expected in
            ["Runs beside each other", "Megacycles per session", "messages in the folder", "500,000", "×"]
        {
            assert!(dom.contains(expected), "{expected} is not on the page");
        }
        assert!(std::fs::metadata(picture).unwrap().len() > 150_000);
    }
}

/// The text of the printed page; `None` where the page cannot be printed or read here.
fn printed(name: &str, results: &[Results]) -> Option<Vec<String>> {
    let chromium = chromium()?;
    if Command::new("pdftotext").arg("-v").output().is_err() {
        eprintln!("skipped: no pdftotext here (Debian: apt-get install poppler-utils)");
        return None;
    }
    let temporary = tempfile::tempdir().unwrap();
    let folder =
        std::env::var_os("POSTHASTE_KEEP_REPORTS").map_or(temporary.path().to_owned(), PathBuf::from);
    std::fs::create_dir_all(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    let (page, paper) = (folder.join(format!("{name}.html")), folder.join(format!("{name}.pdf")));
    std::fs::write(&page, html(results)).unwrap();
    let print = [format!("--print-to-pdf={}", paper.display()), "--no-pdf-header-footer".into()];
    let done = browse(chromium, &temporary.path().join("profile"), &page, &print);
    assert!(paper.exists(), "{}", String::from_utf8_lossy(&done.stderr));
    let text =
        Command::new("pdftotext").args(["-layout".as_ref(), paper.as_os_str()]).arg("-").output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    // A form feed ends each page.
    Some(text.split_terminator('\u{c}').map(str::to_owned).collect())
}

#[test]
fn on_paper_nothing_is_folded_away() {
    let mut study = sample::item_count(&["Posthaste", "Dovecot"]);
    study.servers[0].settings = "posthaste serve --data elsewhere".into();
    study.toml = "name = \"the-file\"".into();
    // More to say than one page holds.
    for point in study.points.iter_mut().flat_map(|p| p.run.as_mut().ok()) {
        point.caveats.extend((0..4).map(|n| format!("drift {} %", point.clients * n)));
    }
    let results =
        [Results::Run(Box::new(sample::run_with_errors("Posthaste"))), Results::Study(Box::new(study))];
    let Some(pages) = printed("paper", &results) else { return };
    let text = pages.concat();
    for expected in ["serve --data elsewhere", "the-file", "What it found", "Every point", "12 ERRORS"] {
        assert!(text.contains(expected), "{expected} is not on paper:\n{text}");
    }
    assert!(!text.contains("Run of"), "runs behind points are not printed");
    assert!(pages[0].contains("Before you believe a figure"), "the first page is left empty:\n{}", pages[0]);
    // A title never stands alone at the foot of a page.
    for page in &pages {
        let last = page.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        assert!(
            !["Every point", "Servers and machine", "Command", "What it found"].contains(&last),
            "{page}"
        );
    }
}
