//! `posthaste check`: verifies the store, or makes its index again.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use posthaste_store_lmdb::Rebuild;

use crate::cli::Check;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open;

pub async fn run(config: Config, options: Check) -> Result<()> {
    if options.rebuild {
        return rebuild(&config, if options.force { Rebuild::Force } else { Rebuild::UnlessFaulty });
    }
    let opened = open::existing(&config).await?;
    let bar = progress_bar("checking");
    let mut progress = |share: f64| bar.set_position((share * 1000.0) as u64);
    let report = opened.store.engine().check(&mut progress).await?;
    bar.finish_and_clear();
    println!("{} records examined", report.examined);
    name(&report.faults);
    match report.faults.len() {
        0 => Ok(()),
        n => Err(Failure::Incomplete(format!(
            "{n} faults; what is named above is not served. `posthaste check --rebuild` makes the index again from the packs"
        ))),
    }
}

fn rebuild(config: &Config, mode: Rebuild) -> Result<()> {
    let bar = progress_bar("rebuilding");
    let mut progress = |share: f64| bar.set_position((share * 1000.0) as u64);
    // Nothing is kept of an index that was lost.
    let had_index = config.data.join("index").exists();
    let report = open::rebuild(config, mode, &mut progress)?;
    bar.finish_and_clear();
    println!("{} records read", report.examined);
    name(&report.faults);
    let kept = if had_index { "; the old one is kept beside it as `index.old`" } else { "" };
    match (report.faults.len(), mode) {
        (0, _) => println!("the new index is in place{kept}"),
        (n, Rebuild::Force) => println!("{n} faults; the new index is in place{kept}"),
        (n, Rebuild::UnlessFaulty) => {
            return Err(Failure::Incomplete(format!(
                "{n} faults; the index is as it was. If a backup cannot help, `posthaste check --rebuild --force` puts an \
                 index in place that lacks what is named above"
            )));
        }
    }
    Ok(())
}

fn progress_bar(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(1000).with_prefix(what).with_style(
        ProgressStyle::with_template("{prefix} {wide_bar} {percent} %  {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn name(faults: &[String]) {
    for fault in faults {
        println!("fault: {fault}");
    }
    if faults.is_empty() {
        println!("no faults");
    }
}
