//! The page of the report: verdicts and caveats first, then runs, then studies.

use posthaste_load_results::{Results, RunResult, StudyResult};
use posthaste_load_text::figure::{date, whole};

use crate::markup::Markup;
use crate::paths::without_folders;
use crate::studies::{self, Behind, point_name};
use crate::{compare, faults, headline, runs, sittings};

/// The report of one or several results: a whole HTML file.
pub fn html(results: &[Results]) -> String {
    page(results, Behind::Runs)
}

/// The same without the runs behind the points of studies, which are most of it.
pub fn short_html(results: &[Results]) -> String {
    page(results, Behind::Nothing)
}

fn page(results: &[Results], behind: Behind) -> String {
    let all_runs: Vec<&RunResult> = results.iter().filter_map(as_run).collect();
    let all_studies: Vec<&StudyResult> = results.iter().filter_map(as_study).collect();
    let named = compare::named(&all_runs);
    let title = title(&all_runs, &all_studies);
    let mut out = Markup::new();
    // Nothing is loaded and nothing runs, even if a server's name contains markup.
    out.raw(concat!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
        "<meta name=\"color-scheme\" content=\"light dark\">\n<style>\n",
        include_str!("style.css"),
        "</style>\n"
    ));
    out.element("title", &[], &title).raw("</head>\n<body>\n<main>\n");
    for (name, run) in &named {
        faults::verdict(if named.len() > 1 { name } else { "" }, run, &mut out);
    }
    for study in &all_studies {
        faults::study_verdict(study, &mut out);
    }
    out.element("h1", &[], &title);
    out.element("p", &[("class", &"quiet")], &subtitle(&all_runs, &all_studies));
    for study in &all_studies {
        let title = (all_studies.len() > 1).then(|| format!("Study {}", study.study));
        headline::of_study(study, title.as_deref(), &mut out);
        sittings::line(study, &mut out);
    }
    faults::caveats(&all_caveats(&named, &all_studies), &mut out);
    if all_studies.len() > 1 {
        contents(&all_studies, &mut out);
    }
    runs::section(&named, &mut out);
    for study in &all_studies {
        studies::section(study, behind, &mut out);
    }
    let tool = results.first().map_or("", |r| match r {
        Results::Run(run) => &run.tool,
        Results::Study(study) => &study.tool,
    });
    out.element(
        "footer",
        &[],
        &format!("Measured with {tool}. Times are the client's; CPU is the server's own."),
    );
    out.raw("</main>\n</body>\n</html>\n");
    out.into_string()
}

fn as_run(results: &Results) -> Option<&RunResult> {
    match results {
        Results::Run(run) => Some(run),
        Results::Study(_) => None,
    }
}

fn as_study(results: &Results) -> Option<&StudyResult> {
    match results {
        Results::Study(study) => Some(study),
        Results::Run(_) => None,
    }
}

fn title(runs: &[&RunResult], studies: &[&StudyResult]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let labels = runs.iter().map(|r| r.label.as_str());
    for name in labels.chain(studies.iter().flat_map(|s| s.servers.iter().map(|f| f.name.as_str()))) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut kinds: Vec<&str> = Vec::new();
    let workloads = runs.iter().map(|r| r.workload.name.as_str());
    for kind in workloads.chain(studies.iter().map(|s| s.study.as_str())) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    match (names.is_empty(), kinds.is_empty()) {
        (true, true) => "Nothing measured".into(),
        (true, false) => kinds.join(", "),
        (false, true) => listed(&names),
        (false, false) => format!("{}: {}", listed(&names), kinds.join(", ")),
    }
}

/// `A`, `A and B`, `A, B and C`.
fn listed(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

fn subtitle(runs: &[&RunResult], studies: &[&StudyResult]) -> String {
    let machine = runs.first().map(|r| &r.machine).or(studies.first().map(|s| &s.machine));
    let mut parts: Vec<String> = Vec::new();
    if let [run] = runs {
        parts.push(format!("{} virtual users", whole(u64::from(run.clients))));
        if !run.generators.is_empty() {
            let names: Vec<&str> = run.generators.iter().map(|g| g.name.as_str()).collect();
            parts.push(format!("{} generators: {}", names.len(), listed(&names)));
        }
        if !run.workload.description.is_empty() {
            parts.push(run.workload.description.clone());
        }
    }
    let points = studies.iter().flat_map(|s| &s.points).filter_map(|p| p.run.as_ref().ok());
    if let Some(started) = runs.iter().copied().chain(points.map(|r| &**r)).map(|r| r.started_unix).min() {
        parts.push(date(started));
    }
    if let Some(machine) = machine {
        parts.push(format!("{} processors, {}", machine.cpus, machine.cpu_model));
    }
    parts.join(" · ")
}

/// Every caveat, with the runs or servers that it is about.
fn all_caveats(runs: &[(String, &RunResult)], studies: &[&StudyResult]) -> Vec<(String, String)> {
    let mut caveats = Vec::new();
    for (name, run) in runs {
        let name = if runs.len() > 1 { name.clone() } else { String::new() };
        caveats.extend(run.caveats.iter().map(|c| (name.clone(), without_folders(c))));
    }
    for study in studies {
        let name = if studies.len() > 1 { study.study.clone() } else { String::new() };
        caveats.extend(study.caveats.iter().map(|c| (name.clone(), without_folders(c))));
        for point in &study.points {
            let name = point_name(point);
            match &point.run {
                Ok(run) => caveats.extend(run.caveats.iter().map(|c| (name.clone(), without_folders(c)))),
                Err(why) => caveats.push((name, format!("not measured: {}", without_folders(why)))),
            }
        }
    }
    caveats
}

fn contents(studies: &[&StudyResult], out: &mut Markup) {
    out.open("p", &[]).text("In this report: ");
    for (at, study) in studies.iter().enumerate() {
        out.text(if at > 0 { " · " } else { "" });
        out.element("a", &[("href", &format!("#study-{}", study.study))], &format!("study {}", study.study));
    }
    out.close("p");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn run(label: &str) -> Results {
        Results::Run(Box::new(sample::run(label, 90, 1.0)))
    }

    #[test]
    fn a_run_with_errors_says_so_in_the_first_line() {
        let mut bad = sample::run("Posthaste", 90, 1.0);
        bad.outcome.clean = false;
        bad.outcome.errors = 3;
        bad.outcome.headline = "3 ERRORS in 1,000 transactions".into();
        let page = html(&[Results::Run(Box::new(bad))]);
        let body = page.split_once("<main>").unwrap().1.trim_start();
        assert!(
            body.starts_with("<p class=\"verdict bad\">✗ 3 ERRORS in 1,000 transactions</p>"),
            "{}",
            &body[..200]
        );
    }

    #[test]
    fn untrusted_names_cannot_leave_their_place() {
        let evil = "</title><script>alert(1)</script>\" onload=\"x";
        let mut bad = sample::run(evil, 90, 1.0);
        bad.transactions[0].name = evil.into();
        bad.caveats.push(evil.into());
        bad.workload.toml = "</pre><script>".into();
        let mut study = sample::item_count(&[evil, "Dovecot"]);
        study.analysis.plots[0].title = evil.into();
        study.analysis.charts[0].title = evil.into();
        study.analysis.charts[0].rows[0].name = evil.into();
        let page = html(&[Results::Run(Box::new(bad)), Results::Study(Box::new(study))]);
        assert!(!page.contains("<script") && !page.contains("\" onload=\""));
    }

    #[test]
    fn folders_of_the_measuring_machine_are_left_out() {
        let folder = "/home/somebody/measured";
        let mut one = sample::run("Posthaste", 90, 1.0);
        one.command = vec![format!("{folder}/posthaste-load"), "--out".into(), format!("{folder}/out")];
        one.settings.insert("password file".into(), format!("{folder}/pw"));
        one.caveats.push(format!("it has said more: {folder}/posthaste.log"));
        if let Some(server) = &mut one.server {
            server.source = format!("agent of {folder}/socket");
        }
        let mut study = sample::item_count(&["Posthaste", "Dovecot"]);
        study.command.push(format!("--work={folder}/work"));
        study.servers[0].settings = format!("{folder}/posthaste serve --data {folder}/data");
        study.servers[1].version = format!("it does not start: see {folder}/dovecot.out");
        study.caveats.push(format!("{folder}/import stays"));
        study.points[0].run = Err(format!("no answer: see {folder}/log"));
        let page = html(&[Results::Run(Box::new(one)), Results::Study(Box::new(study))]);
        let left: Vec<&str> = page.lines().filter(|line| line.contains("somebody")).collect();
        assert!(left.is_empty(), "{left:?}");
        for shown in ["posthaste-load --out …/out<", "--work=…/work<", "…/posthaste serve --data …/data<"]
        {
            assert!(page.contains(shown), "{shown}");
        }
    }

    #[test]
    fn a_short_report_has_no_runs_behind_points() {
        let study = [Results::Study(Box::new(sample::item_count(&["Posthaste", "Dovecot"])))];
        let (whole, short) = (html(&study), short_html(&study));
        assert!(whole.contains("Run of Posthaste, inbox-sync") && !short.contains("Run of"));
        assert!(short.contains("Every point") && short.contains("Settings of Dovecot"));
        assert!(short.len() < whole.len(), "{} of {}", short.len(), whole.len());
        // A run that stands alone has no point.
        assert_eq!(html(&[run("Posthaste")]), short_html(&[run("Posthaste")]));
    }

    #[test]
    fn every_drawing_is_well_formed() {
        let page = html(&[
            run("Posthaste"),
            run("Dovecot"),
            Results::Study(Box::new(sample::item_count(&["Posthaste", "Dovecot"]))),
        ]);
        let mut drawings = 0;
        for part in page.split("<svg").skip(1) {
            let svg = format!("<svg{}</svg>", part.split_once("</svg>").unwrap().0);
            roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}\n{svg}"));
            drawings += 1;
        }
        assert!(drawings >= 9, "{drawings}");
        assert!(page.contains("CPU by server") && page.contains("46.5 %"), "bars of a study are drawn");
        assert!(!page.contains("src=") && !page.contains("url("), "nothing is loaded");
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(listed(&["A"]), "A");
        assert_eq!(listed(&["A", "B"]), "A and B");
        assert_eq!(listed(&["A", "B", "C"]), "A, B and C");
    }

    #[test]
    fn nothing_measured_is_still_a_page() {
        assert!(html(&[]).contains("Nothing measured"));
    }
}
