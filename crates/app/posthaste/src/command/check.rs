//! `posthaste check`: proves the store, or builds its index anew.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::Check;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open;

pub async fn run(config: Config, options: Check) -> Result<()> {
    if options.rebuild {
        let report = open::rebuild(&config)?;
        println!("rebuilt the index from {} records", report.examined);
        return conclude(&report.faults);
    }
    let opened = open::existing(&config).await?;
    let bar = ProgressBar::new(1000).with_style(
        ProgressStyle::with_template("checking {wide_bar} {percent} %  {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut progress = |share: f64| bar.set_position((share * 1000.0) as u64);
    let report = opened.store.engine().check(&mut progress).await?;
    bar.finish_and_clear();
    println!("{} records examined", report.examined);
    conclude(&report.faults)
}

fn conclude(faults: &[String]) -> Result<()> {
    for fault in faults {
        println!("fault: {fault}");
    }
    match faults.len() {
        0 => {
            println!("no faults");
            Ok(())
        }
        n => Err(Failure::Incomplete(format!(
            "{n} faults; what is named above is not served. `posthaste check --rebuild` builds the index anew from the packs"
        ))),
    }
}
