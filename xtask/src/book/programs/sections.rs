//! What a program printed, by section: a line `== NAME ==` begins the section of the piece NAME.

use std::collections::BTreeMap;

/// The sections of `printed`, without blank lines at their ends, or a sentence on the line that has no place.
pub(super) fn sections(printed: &str) -> Result<BTreeMap<&str, String>, String> {
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    let mut current: Option<&str> = None;
    for line in printed.lines() {
        if let Some(name) = line
            .strip_prefix("== ")
            .and_then(|rest| rest.strip_suffix(" =="))
        {
            if sections.insert(name, String::new()).is_some() {
                return Err(format!("prints the line `== {name} ==` twice"));
            }
            current = Some(name);
        } else if let Some(name) = current {
            let section = sections.entry(name).or_default();
            section.push_str(line.trim_end());
            section.push('\n');
        } else if !line.trim().is_empty() {
            return Err(format!(
                "prints `{line}` before the first line of the form `== PIECE ==`"
            ));
        }
    }
    for section in sections.values_mut() {
        let text = section.trim_start_matches('\n').trim_end();
        *section = if text.is_empty() {
            String::new()
        } else {
            format!("{text}\n")
        };
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_begins_a_section() {
        let found = sections("== a ==\n1\n\n 2 \n\n== b ==\n\n== c ==\n3\n")
            .expect("every line has its place");
        let expected = [("a", "1\n\n 2\n"), ("b", ""), ("c", "3\n")];
        assert_eq!(
            found,
            expected.map(|(name, text)| (name, text.to_string())).into()
        );
    }

    #[test]
    fn every_line_has_its_place() {
        assert_eq!(
            sections("x\n== a ==\n"),
            Err("prints `x` before the first line of the form `== PIECE ==`".to_string())
        );
        assert_eq!(
            sections("== a ==\n== a ==\n"),
            Err("prints the line `== a ==` twice".to_string())
        );
    }
}
