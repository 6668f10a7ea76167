//! `posthaste-load report`.

use std::path::{Path, PathBuf};

use clap::Args;
use posthaste_load_report::{csv_of_all, files, html, markdown_of_all, short_html};

use crate::failure::Failure;

/// Flags of `report`.
#[derive(Args)]
pub struct ReportArgs {
    /// Results of runs or studies; several are compared in one report.
    #[arg(value_name = "DIR", required = true)]
    results: Vec<PathBuf>,
    /// The file to write. Every run's figures are written as CSV beside it, and the tables of
    /// studies as Markdown (`.tables.md`). The reports stored with the results stay unchanged.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Leave out the runs behind the points of a study, which are most of its report.
    #[arg(long)]
    short: bool,
    /// Overwrite it.
    #[arg(long)]
    force: bool,
}

/// Writes the report.
pub fn main(args: &ReportArgs) -> Result<(), Failure> {
    let results: Vec<_> =
        args.results.iter().map(|dir| files::read(dir)).collect::<Result<_, _>>().map_err(Failure::usage)?;
    let file = args.out.clone();
    let table = file.with_extension("csv");
    let document = file.with_extension("tables.md");
    let tables = markdown_of_all(&results);
    let written = [Some(&file), Some(&table), Some(&document).filter(|_| !tables.is_empty())];
    if let Some(there) = written.into_iter().flatten().find(|f| !args.force && f.exists()) {
        return Err(Failure::failed(format!("{} exists; --force overwrites it", there.display())));
    }
    let write = |file: &Path, text: String| {
        std::fs::write(file, text).map_err(|e| Failure::failed(format!("{}: {e}", file.display())))
    };
    write(&table, csv_of_all(&results))?;
    if !tables.is_empty() {
        write(&document, tables)?;
    }
    write(&file, if args.short { short_html(&results) } else { html(&results) })?;
    println!("{} (and its figures in {})", file.display(), table.display());
    Ok(())
}
