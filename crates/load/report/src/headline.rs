//! The first screen: for each study a sentence, a picture, and the article's result beside ours.

use posthaste_load_results::{Plot, StudyResult};

use crate::markup::Markup;
use crate::studies;

/// One study's, below its title if the page has several.
pub fn of_study(study: &StudyResult, title: Option<&str>, out: &mut Markup) {
    let analysis = &study.analysis;
    let (sentence, findings) = match (&analysis.headline, analysis.findings.as_slice()) {
        (Some(headline), findings) => (headline.sentence.as_str(), findings),
        (None, [first, findings @ ..]) => (first.as_str(), findings),
        (None, []) => return,
    };
    out.raw("<section class=\"headline\">");
    if let Some(title) = title {
        out.element("p", &[("class", &"quiet small")], title);
    }
    out.element("p", &[("class", &"sentence")], sentence);
    let drawn = |plot: &&Plot| plot.curves.iter().any(|curve| !curve.points.is_empty());
    let chart = analysis.charts.iter().find(|chart| !chart.rows.is_empty());
    match (&analysis.headline, analysis.plots.iter().find(drawn), chart) {
        (Some(headline), ..) => studies::chart(&headline.chart, out),
        (None, Some(plot), _) => studies::plot(plot, out),
        (None, None, Some(chart)) => studies::chart(chart, out),
        (None, None, None) => {}
    }
    let ours = findings.first();
    if !study.published.is_empty() {
        beside("The article", &study.published, out);
    }
    if let Some(ours) = ours {
        beside("Here", ours, out);
    }
    out.raw("</section>\n");
}

fn beside(whose: &str, text: &str, out: &mut Markup) {
    out.open("p", &[("class", &"beside")]);
    out.element("strong", &[], &format!("{whose}: ")).text(text).close("p");
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::{Bar, BarChart, BarRow, Headline};

    use super::*;
    use crate::sample;

    fn drawn(study: &StudyResult) -> String {
        let mut out = Markup::new();
        of_study(study, None, &mut out);
        out.into_string()
    }

    #[test]
    fn a_sentence_a_picture_and_the_articles_result() {
        let mut study = sample::item_count(&["Posthaste", "Dovecot"]);
        study.published = "at most 10,000 items".into();
        study.analysis.findings = vec!["no knee".into()];
        let row = |name: &str, times| BarRow {
            name: name.into(),
            bars: vec![Bar { parts: vec![(0, times)], note: format!("{times} ×") }],
        };
        study.analysis.headline = Some(Headline {
            sentence: "For the same work Dovecot needs 5 times the CPU of Posthaste.".into(),
            chart: BarChart { rows: vec![row("Posthaste", 1.0), row("Dovecot", 5.0)], ..BarChart::default() },
        });
        let page = drawn(&study);
        assert!(page.contains("For the same work Dovecot needs 5 times the CPU of Posthaste."), "{page}");
        assert!(page.contains("5 ×") && page.contains("<svg"));
        assert!(page.contains("The article: </strong>\nat most 10,000 items</p>"), "{page}");
        assert!(page.contains("Here: </strong>\nno knee</p>"), "{page}");
    }

    #[test]
    fn one_server_has_its_first_finding_and_curve() {
        let mut study = sample::item_count(&["Posthaste"]);
        study.analysis.findings = vec!["no knee".into(), "nothing else was a limit".into()];
        let page = drawn(&study);
        assert!(page.contains("<p class=\"sentence\">no knee</p>"), "{page}");
        assert!(page.contains("<svg") && page.contains("Here: </strong>\nnothing else"), "{page}");
        study.analysis.findings.clear();
        assert_eq!(drawn(&study), "");
    }

    #[test]
    fn the_picture_is_the_first_that_shows_anything() {
        let mut study = sample::item_count(&["Posthaste"]);
        study.analysis.findings = vec!["no knee".into()];
        study.analysis.headline = None;
        study.analysis.plots.insert(0, Plot { title: "Nothing".into(), ..Plot::default() });
        let page = drawn(&study);
        assert!(page.contains("<svg") && !page.contains("Nothing"), "{page}");
        let bar = Bar { parts: vec![(0, 2.0)], note: "2 ms".into() };
        study.analysis.plots.clear();
        study.analysis.charts = vec![BarChart {
            rows: vec![BarRow { name: "a".into(), bars: vec![bar] }],
            ..BarChart::default()
        }];
        let page = drawn(&study);
        assert!(page.contains("<svg") && page.contains("2 ms"), "{page}");
    }
}
