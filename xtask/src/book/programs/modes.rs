//! The modes of a partition stand beside it, as `// (CPY, CPY_M, CPY_K)`: a reader cannot see them in its type.

/// The calls whose result has modes that the code does not name.
const CALLS: [&str; 5] = [
    ".partition_src(",
    ".partition_dst(",
    ".local_tile(",
    ".gmma_operand(",
    ".fragment_of(",
];

/// The partitions of `text` without their modes, each with its line, counted from 1. The comment is on the line of the call
/// or on the line before it.
pub(super) fn unnamed(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        let Some(call) = CALLS.iter().find(|call| code.contains(**call)) else {
            continue;
        };
        // The coordinate of a thread's first element is no partition.
        if code.contains(".start") {
            continue;
        }
        let before = at.checked_sub(1).map(|before| lines[before].trim());
        let is_named = line.contains("// (")
            || before.is_some_and(|before| before.starts_with("// (") && before.ends_with(')'));
        if !is_named {
            let call = call.trim_matches(['.', '(']);
            found.push((
                at + 1,
                format!(
                    "`{call}` without its modes: add a comment such as `// (CPY, CPY_M, CPY_K)`"
                ),
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_says_its_modes() {
        let found = |text: &str| {
            unnamed(text)
                .into_iter()
                .map(|(line, _)| line)
                .collect::<Vec<_>>()
        };
        for text in [
            "let a = x.partition_src(&t); // (CPY, CPY_M)\n",
            "// (BLK_M, BLK_K)\nlet a = t.local_tile((4, 8), &at);\n",
            "println!(\"{}\", x.partition_src(&t)?.start);\n",
            "let a = x.partition_steps(&t);\n",
            "// x.fragment_of() is for wgmma\n",
        ] {
            assert_eq!(found(text), [0; 0], "{text}");
        }
        for call in CALLS {
            assert_eq!(found(&format!("let a = x{call}y);\n")), [1]);
            assert_eq!(
                found(&format!("// Of a thread.\nlet a = x{call}y);\n")),
                [2]
            );
        }
        assert_eq!(
            unnamed("\nlet a = k.gmma_operand(&mma);\n"),
            [(
                2,
                "`gmma_operand` without its modes: add a comment such as `// (CPY, CPY_M, CPY_K)`"
                    .to_string()
            )]
        );
    }
}
