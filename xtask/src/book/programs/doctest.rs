//! The program of a Rust block that is no piece: what the copy button of the block copies. rustdoc puts a block into a `main`
//! before it compiles it; so does this.

use proc_macro2::TokenStream;

/// The lines of `body` as rustdoc compiles them: hidden ones too, without their marks.
fn unhidden(body: &str) -> Vec<&str> {
    let line = |line| match line {
        "#" => "",
        _ if line.starts_with("##") => &line[1..],
        _ => line.strip_prefix("# ").unwrap_or(line),
    };
    body.lines().map(line).collect()
}

/// The error of `Ok::<(), ERROR>(())`, which ends a block that uses `?`.
fn error(line: &str) -> Option<&str> {
    line.strip_prefix("Ok::<(), ")?.strip_suffix(">(())")
}

/// The whole program of a block.
pub(super) fn whole(body: &str) -> String {
    let lines = unhidden(body);
    if lines.iter().any(|line| line.starts_with("fn main(")) {
        return lines.join("\n") + "\n";
    }
    let tokens = |text: &str| text.parse().ok().map(|text: TokenStream| text.to_string());
    let [plain, indented] = ["", "    "].map(|indent| in_main(&lines, indent));
    // A text over several lines changes with their indentation.
    if tokens(&plain) == tokens(&indented) {
        indented
    } else {
        plain
    }
}

/// The lines with a `main` around all but the `use` declarations that they begin with, whose names its type may need.
fn in_main(lines: &[&str], indent: &str) -> String {
    let (error, lines) = match lines.split_last().map(|(last, rest)| (error(last), rest)) {
        Some((Some(error), rest)) => (Some(error), rest),
        _ => (None, lines),
    };
    let mut is_used = false;
    let uses = lines.iter().take_while(|line| {
        is_used |= line.starts_with("use ");
        let is_use = is_used || line.is_empty();
        is_used &= !line.contains(';');
        is_use
    });
    let (uses, body) = lines.split_at(uses.count());
    let (head, end) = match error {
        Some(error) => (
            format!("fn main() -> Result<(), {error}> {{\n"),
            "    Ok(())\n}\n",
        ),
        None => ("fn main() {\n".to_string(), "}\n"),
    };
    let uses: String = uses.iter().map(|line| format!("{line}\n")).collect();
    let body = body.iter().map(|line| match *line {
        "" => "\n".to_string(),
        line => format!("{indent}{line}\n"),
    });
    uses + &head + &body.collect::<String>() + end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::chapters::Chapters;
    use crate::{markdown, workspace};

    #[test]
    fn a_block_becomes_a_program() {
        assert_eq!(
            whole(
                "# use a::{\n#     b,\n# };\nuse c::Error;\n\n##[test]\nlet x = b();\n# Ok::<(), Error>(())\n"
            ),
            "use a::{\n    b,\n};\nuse c::Error;\n\nfn main() -> Result<(), Error> {\n    #[test]\n    let x = b();\n    Ok(())\n}\n"
        );
        assert_eq!(
            whole("a();\n#\nuse b::c;\n"),
            "fn main() {\n    a();\n\n    use b::c;\n}\n"
        );
        assert_eq!(
            whole("b()?;\n# Ok::<(), Box<dyn std::error::Error>>(())\n"),
            "fn main() -> Result<(), Box<dyn std::error::Error>> {\n    b()?;\n    Ok(())\n}\n"
        );
        assert_eq!(
            whole("# fn f() {}\nfn main() {\n    f();\n}\n"),
            "fn f() {}\nfn main() {\n    f();\n}\n"
        );
        assert_eq!(whole("f(\"a\nb\");\n"), "fn main() {\nf(\"a\nb\");\n}\n");
    }

    /// With `COLEX_COPIED=FILE` the file becomes one program of all of them, which cargo can check as an example.
    #[test]
    fn law_a_copied_program_has_every_line_of_its_block_in_order() {
        let root = workspace::root().expect("the test runs in the repository");
        let chapters = Chapters::read(&root).expect("the chapters can be listed");
        let (mut cases, mut all, mut calls) = (0, String::new(), String::new());
        for path in chapters.paths() {
            let text = workspace::read(&path).expect("a listed chapter can be read");
            let fences = markdown::parts(&text).fences;
            for fence in fences.iter().filter(|fence| fence.is_rust()) {
                let program = whole(&fence.body);
                let mut rest = program.as_str();
                for line in unhidden(&fence.body) {
                    if error(line).is_some() {
                        continue;
                    }
                    let at = rest.find(line);
                    let at = at.unwrap_or_else(|| panic!("{}: {line}\n{program}", path.display()));
                    rest = &rest[at + line.len()..];
                }
                assert_eq!(program.matches("fn main()").count(), 1, "{program}");
                // The type of an error without a path is declared before `main`.
                let type_of_main = program.lines().find_map(|line| {
                    line.strip_prefix("fn main() -> Result<(), ")?
                        .strip_suffix("> {")
                });
                if let Some(name) = type_of_main.filter(|name| !name.contains("::")) {
                    let uses = program.split("fn main()").next().unwrap_or("");
                    assert!(uses.contains(name), "{program}");
                }
                cases += 1;
                if !fence.info.as_deref().unwrap_or("").contains("compile_fail") {
                    let program = program.replace("fn main()", "pub fn main()");
                    all += &format!("mod p{cases} {{\n{program}}}\n");
                    calls += &format!("    let _ = p{cases}::main();\n");
                }
            }
        }
        if let Some(file) = std::env::var_os("COLEX_COPIED") {
            let text =
                format!("//! All of them.\n#![allow(warnings)]\n{all}fn main() {{\n{calls}}}\n");
            std::fs::write(file, text).expect("the file can be written");
        }
        assert!(cases > 100);
        println!("law copied programs: {cases} cases");
    }
}
