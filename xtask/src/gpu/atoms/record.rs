//! Records as JSON lines, and the head of a file of them.

use std::time::Duration;

use anyhow::{Context, Result};
use colex_gpu::Device;
use colex_proof::sweep::{Agreement, Record, Times, Verdict};
use serde_json::{Value, json};

/// What all records of a file share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The device, its architecture and the driver.
    pub(crate) device: String,
    /// What the random data came from.
    pub(crate) seed: u64,
    /// How many rounds of each kind of data.
    pub(crate) repeats: usize,
}

impl Head {
    pub(crate) fn of(device: &Device, seed: u64, repeats: usize) -> Head {
        let driver = device.driver_version().map_or(String::new(), |version| {
            format!(", CUDA {}.{}", version / 1000, version % 1000 / 10)
        });
        Head {
            device: format!("{}, {}{driver}", device.name(), device.arch()),
            seed,
            repeats,
        }
    }

    pub(crate) fn line(&self) -> String {
        json!({"device": self.device, "seed": self.seed, "repeats": self.repeats}).to_string()
    }

    pub(crate) fn parse(line: &str) -> Result<Head> {
        let value: Value = serde_json::from_str(line).context("the first line is no JSON")?;
        let number = |key: &str| {
            value[key]
                .as_u64()
                .with_context(|| format!("no number `{key}`"))
        };
        Ok(Head {
            device: value["device"].as_str().context("no `device`")?.to_string(),
            seed: number("seed")?,
            repeats: number("repeats")? as usize,
        })
    }
}

/// A record as one line; with its times, unless the file is to be kept.
pub(crate) fn line(record: &Record, timed: bool) -> String {
    let agreement = &record.agreement;
    let mut value = json!({
        "name": record.name,
        "family": record.family,
        "verdict": record.verdict.to_string(),
        "elements": agreement.elements,
        "exact": agreement.exact,
        "modelled": agreement.modelled,
        "digest": format!("{:08x}", digest(agreement)),
    });
    match &record.verdict {
        Verdict::Refused { by, words } => {
            value["by"] = json!(by);
            value["words"] = json!(words);
        }
        Verdict::Wrong(words) => value["words"] = json!(words),
        Verdict::Within => value["words"] = json!(agreement.rounded),
        _ => {}
    }
    if timed {
        let times = &record.times;
        let micros = |time: Duration| time.as_micros() as u64;
        value["us"] = json!([
            micros(times.printed),
            times.assembled.map(micros),
            times.loaded.map(micros),
            micros(times.ran)
        ]);
    }
    value.to_string()
}

/// Enough of the fingerprint to tell two results apart.
pub(crate) fn digest(agreement: &Agreement) -> u32 {
    (agreement.digest ^ agreement.digest >> 32) as u32
}

pub(crate) fn parse(line: &str) -> Result<Record> {
    let value: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
    let text = |key: &str| -> Result<String> {
        let text = value[key].as_str();
        Ok(text
            .with_context(|| format!("no text `{key}` in {line}"))?
            .to_string())
    };
    let number = |key: &str| value[key].as_u64().unwrap_or(0);
    let verdict = match text("verdict")?.as_str() {
        "exact" => Verdict::Exact,
        "modelled" => Verdict::Modelled,
        "within" => Verdict::Within,
        "refused" => Verdict::Refused {
            by: by(&text("by")?),
            words: text("words")?,
        },
        _ => Verdict::Wrong(text("words")?),
    };
    let time = |at: usize| value["us"][at].as_u64().map(Duration::from_micros);
    Ok(Record {
        name: text("name")?,
        family: text("family")?,
        agreement: Agreement {
            elements: number("elements"),
            exact: number("exact"),
            modelled: number("modelled"),
            must_be_exact: verdict == Verdict::Exact,
            wrong: None,
            rounded: (verdict == Verdict::Within)
                .then(|| text("words"))
                .transpose()?,
            digest: u64::from_str_radix(&text("digest")?, 16)?,
        },
        verdict,
        times: Times {
            printed: time(0).unwrap_or_default(),
            assembled: time(1),
            loaded: time(2),
            ran: time(3).unwrap_or_default(),
        },
    })
}

/// What refuses: the assembler, the driver or the device.
const REFUSERS: [&str; 5] = ["verifier", "assembler", "driver", "hardware", "simulator"];

fn by(text: &str) -> &'static str {
    REFUSERS
        .into_iter()
        .find(|name| *name == text)
        .unwrap_or("driver")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(verdict: Verdict) -> Record {
        Record {
            name: "SM80 \"quoted\"".to_string(),
            family: "mma.sync, floats".to_string(),
            agreement: Agreement {
                elements: 512,
                exact: 7,
                modelled: 511,
                must_be_exact: verdict == Verdict::Exact,
                wrong: None,
                rounded: (verdict == Verdict::Within).then(|| "D(1,2)".to_string()),
                digest: 0xfeed,
            },
            verdict,
            times: Times {
                printed: Duration::from_micros(3),
                assembled: Some(Duration::from_micros(40)),
                loaded: None,
                ran: Duration::from_micros(5),
            },
        }
    }

    #[test]
    fn a_record_is_read_back_from_its_line() {
        let refused = Verdict::Refused {
            by: "hardware",
            words: "an illegal instruction\nwas met".to_string(),
        };
        let wrong = Verdict::Wrong("D(1,2): expected 1, found NaN".to_string());
        for verdict in [
            Verdict::Exact,
            Verdict::Modelled,
            Verdict::Within,
            refused,
            wrong,
        ] {
            let record = record(verdict);
            assert_eq!(parse(&line(&record, true)).unwrap(), record);
        }
    }

    #[test]
    fn a_head_is_read_back() {
        let head = Head {
            device: "NVIDIA H200, sm_90a, CUDA 13.0".to_string(),
            seed: u64::MAX,
            repeats: 2,
        };
        assert_eq!(Head::parse(&head.line()).unwrap(), head);
    }
}
