//! What the H200 said, kept in the repository, and the simulator compared with it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use anyhow::{Context, Result};
use colex_gpu::sweep::Record;
use flate2::{Compression, GzBuilder, read::GzDecoder};

use super::record::{self, Head};

/// Writes the records without their times, packed, the same bytes for the same records.
pub(super) fn keep(path: &Path, head: &Head, records: &[Record]) -> Result<()> {
    let file =
        File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
    let mut packed = GzBuilder::new().mtime(0).write(file, Compression::best());
    writeln!(packed, "{}", head.line())?;
    for record in records {
        writeln!(packed, "{}", record::line(record, false))?;
    }
    packed.finish()?;
    Ok(())
}

/// A kept file.
pub(crate) fn read(path: &Path) -> Result<(Head, Vec<Record>)> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut lines = BufReader::new(GzDecoder::new(file)).lines();
    let head = lines.next().context("an empty file")??;
    let records = lines
        .map(|line| record::parse(&line?))
        .collect::<Result<_>>()?;
    Ok((Head::parse(&head)?, records))
}
