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

fn in_main(lines: &[&str], indent: &str) -> String {
    let (head, lines, end) = match lines.split_last().map(|(last, rest)| (error(last), rest)) {
        Some((Some(error), rest)) => (
            format!("fn main() -> Result<(), {error}> {{\n"),
            rest,
            "    Ok(())\n}\n",
        ),
        _ => ("fn main() {\n".to_string(), lines, "}\n"),
    };
    let lines = lines.iter().map(|line| match *line {
        "" => "\n".to_string(),
        line => format!("{indent}{line}\n"),
    });
    head + &lines.collect::<String>() + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_becomes_a_program() {
        assert_eq!(
            whole("# use a::b;\n#\n##[test]\nlet x = b();\n"),
            "fn main() {\n    use a::b;\n\n    #[test]\n    let x = b();\n}\n"
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
}
