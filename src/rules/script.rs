//! Splits text for a shell into commands, by a real grammar.
//!
//! Two views of one text. The **plain** view is there only if every shell would run exactly these words: node by node
//! an allow-list, word by word a second reader ([`shlex`]) that must agree. It carries trust. The **loose** view finds
//! whatever looks like a command, wherever it stands, and carries caution only: it may find too much.

use std::borrow::Cow;

use tree_sitter::{Node, Parser, Tree};

use crate::core::policy::is_shell;

/// Longest text that is parsed. What the grammar needs to recover from hostile text grows with the square: tenths of a
/// second for this size. Honest lines are shorter, or hold documents that make them whole anyway.
const SCRIPT_MAX: usize = 8 * 1024;

/// Words that are no commands when they stand where a command does, in one of the shells.
const RESERVED: &[&str] = &[
    "!",
    "-",
    "[[",
    "]]",
    "{",
    "}",
    "case",
    "coproc",
    "do",
    "done",
    "elif",
    "else",
    "end",
    "esac",
    "fi",
    "for",
    "foreach",
    "function",
    "if",
    "in",
    "nocorrect",
    "noglob",
    "repeat",
    "select",
    "then",
    "time",
    "until",
    "while",
];

/// The text with a letter for every byte that is not ASCII, so that positions stay as they are. Shells know no such
/// character but as a part of words, and the grammar's scanner looks it up in a table of 256 entries: what is read beyond
/// them ends the process.
fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.bytes().map(|byte| if byte.is_ascii() { char::from(byte) } else { 'x' }).collect())
}

/// A text for a shell.
#[derive(Debug)]
pub(super) struct Script<'a> {
    text: &'a str,
    tree: Option<Tree>,
}

impl<'a> Script<'a> {
    /// Parses, unless the text is too long.
    pub(super) fn parse(text: &'a str) -> Self {
        let mut parser = Parser::new();
        let known = parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_ok();
        let tree = if known && text.len() <= SCRIPT_MAX { parser.parse(&*ascii(text), None) } else { None };
        Self { text, tree }
    }

    /// The commands of a text that is nothing but plain commands in sequence: at least one, each with at least one
    /// word. `None` where any shell might do something else.
    pub(super) fn plain(&self) -> Option<Vec<Vec<String>>> {
        let root = self.tree.as_ref()?.root_node();
        if root.has_error() || self.text.contains('\0') {
            return None;
        }
        let mut commands = Vec::new();
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            match node.kind() {
                "pipeline" if self.piped(node).is_some() => return None,
                "program" | "list" | "pipeline" | "redirected_statement" => {
                    self.only_blank_between(node, &[' ', '\t', '\n'])?;
                    // The last child is opened last, so that commands come in their order.
                    open.extend(children(node).into_iter().rev());
                }
                "command" => commands.push(self.plain_command(node)?),
                "file_redirect" if self.is_harmless(node) => {}
                "comment" if self.text_of(node).starts_with('#') => {}
                "&&" | "||" | "|" | ";" | "\n" => {}
                _ => return None,
            }
        }
        (!commands.is_empty()).then_some(commands)
    }

    fn plain_command(&self, node: Node<'_>) -> Option<Vec<String>> {
        self.only_blank_between(node, &[' ', '\t'])?;
        let mut words = Vec::new();
        for child in children(node) {
            match child.kind() {
                "command_name" => words.push(self.plain_name(child)?),
                "file_redirect" if self.is_harmless(child) => {}
                _ => words.push(self.plain_word(child)?),
            }
        }
        (!words.is_empty()).then_some(words)
    }

    fn plain_name(&self, node: Node<'_>) -> Option<String> {
        let parts = children(node);
        let [part] = parts.as_slice() else { return None };
        let name = self.plain_word(*part)?;
        let is_command = !name.is_empty() && !name.contains('=') && !RESERVED.contains(&name.as_str());
        is_command.then_some(name)
    }

    fn plain_word(&self, node: Node<'_>) -> Option<String> {
        let text = self.text_of(node);
        let word = match node.kind() {
            "concatenation" => self.plain_concatenation(node)?,
            _ => self.plain_part(node, true)?,
        };
        let again = shlex::split(text)?;
        (again == [word.as_str()]).then_some(word)
    }

    fn plain_concatenation(&self, node: Node<'_>) -> Option<String> {
        let mut word = String::new();
        let mut end = node.start_byte();
        for (at, part) in children(node).into_iter().enumerate() {
            if part.start_byte() != end {
                return None;
            }
            word.push_str(&self.plain_part(part, at == 0)?);
            end = part.end_byte();
        }
        (end == node.end_byte()).then_some(word)
    }

    /// A part of a word that every shell takes for the same characters.
    fn plain_part(&self, node: Node<'_>, is_first: bool) -> Option<String> {
        let text = self.text_of(node);
        match node.kind() {
            "word" | "number" => is_plain(text, is_first).then(|| text.to_owned()),
            "raw_string" => text.strip_prefix('\'')?.strip_suffix('\'').map(str::to_owned),
            "string" => plain_string(text.strip_prefix('"')?.strip_suffix('"')?),
            _ => None,
        }
    }

    /// Whether a redirection neither writes nor reads a file: to and from `/dev/null`, and stdout and stderr into each
    /// other.
    fn is_harmless(&self, node: Node<'_>) -> bool {
        let text: String = self.text_of(node).chars().filter(|c| *c != ' ' && *c != '\t').collect();
        let operator = text.trim_start_matches(['0', '1', '2']);
        text.len() - operator.len() <= 1
            && [">/dev/null", ">>/dev/null", "</dev/null", ">&1", ">&2"].contains(&operator)
    }

    /// Nothing but `blanks` between the children: what the grammar skips must not be what a shell reads.
    fn only_blank_between(&self, node: Node<'_>, blanks: &[char]) -> Option<()> {
        // The root begins and ends where its first and last child do, not where the text does.
        let whole = if node.kind() == "program" { 0..self.text.len() } else { node.byte_range() };
        let mut end = whole.start;
        for child in children(node) {
            let gap = self.text.get(end..child.start_byte())?;
            if !gap.chars().all(|c| blanks.contains(&c)) {
                return None;
            }
            end = child.end_byte();
        }
        let rest = self.text.get(end..whole.end)?;
        rest.chars().all(|c| blanks.contains(&c)).then_some(())
    }

    /// Whatever looks like a command, wherever it stands: in substitutions, bodies, branches, text that is fed to a
    /// shell.
    pub(super) fn loose(&self) -> Vec<Vec<String>> {
        let mut commands = Vec::new();
        let broken = self.tree.as_ref().is_none_or(|tree| tree.root_node().has_error());
        if broken {
            commands.extend(scan(self.text));
        }
        let Some(tree) = &self.tree else { return commands };
        let mut cursor = tree.walk();
        loop {
            self.loose_node(cursor.node(), &mut commands);
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return commands;
                }
            }
        }
    }

    fn loose_node(&self, node: Node<'_>, commands: &mut Vec<Vec<String>>) {
        match node.kind() {
            "command" => {
                let words = self.loose_words(node);
                commands.extend(self.fed(node, &words, "herestring_redirect"));
                commands.push(words);
            }
            "redirected_statement" => {
                let body = node.child_by_field_name("body").map_or("", |body| self.text_of(body));
                let words: Vec<String> = scan(body).flatten().collect();
                commands.extend(self.fed(node, &words, "heredoc_redirect"));
                commands.extend(self.fed(node, &words, "herestring_redirect"));
            }
            "pipeline" => commands.extend(self.piped(node)),
            _ => {}
        }
    }

    fn loose_words(&self, node: Node<'_>) -> Vec<String> {
        let is_word =
            |child: &Node<'_>| !child.kind().ends_with("_redirect") && child.kind() != "variable_assignment";
        match node.kind() {
            "command" => children(node)
                .into_iter()
                .filter(is_word)
                .map(|child| unquoted(self.text_of(child)).into_owned())
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The text that a redirection of this kind feeds to a shell among `words`, as a command of that shell.
    fn fed(&self, node: Node<'_>, words: &[String], kind: &str) -> Option<Vec<String>> {
        let redirect = children(node).into_iter().find(|child| child.kind() == kind)?;
        let shell = words.iter().find(|word| is_shell(word))?;
        let fed = children(redirect).into_iter().filter(|child| child.is_named());
        let text = fed
            .filter(|child| child.kind() != "heredoc_start" && child.kind() != "heredoc_end")
            .map(|child| match child.kind() {
                "heredoc_body" => Cow::Borrowed(self.text_of(child)),
                _ => unquoted(self.text_of(child)),
            })
            .collect::<Vec<_>>()
            .join("\n");
        Some(vec![shell.clone(), "-c".to_owned(), text])
    }

    /// What `echo` and `printf` say into a pipeline with a shell, as a command of that shell.
    fn piped(&self, node: Node<'_>) -> Option<Vec<String>> {
        let commands: Vec<Vec<String>> =
            children(node).into_iter().map(|child| self.loose_words(child)).collect();
        let shell = commands.iter().flatten().find(|word| is_shell(word))?;
        let said: Vec<String> = commands
            .iter()
            .filter_map(|words| words.split_first())
            .filter(|(program, _)| ["echo", "printf"].contains(&program.as_str()))
            .map(|(_, said)| said.join(" "))
            .collect();
        (!said.is_empty()).then(|| vec![shell.clone(), "-c".to_owned(), said.join("\n")])
    }

    fn text_of(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

/// Characters that no shell gives a meaning, in this place of a word.
fn is_plain(text: &str, is_first: bool) -> bool {
    let mut before = if is_first { None } else { Some('x') };
    for c in text.chars() {
        let plain = match c {
            // Home directories, and zsh's paths of commands.
            '~' => before.is_some_and(|before| !":=".contains(before)),
            '=' => before.is_some(),
            _ => c.is_alphanumeric() || "_-./:,+@%^".contains(c),
        };
        if !plain {
            return false;
        }
        before = Some(c);
    }
    !text.is_empty()
}

/// The inside of double quotes, if nothing in it is expanded.
fn plain_string(inside: &str) -> Option<String> {
    let mut word = String::new();
    let mut rest = inside.chars();
    while let Some(c) = rest.next() {
        match c {
            '$' | '`' | '"' | '!' => return None,
            '\\' => word.push(rest.next().filter(|c| "\"\\$`".contains(*c))?),
            c => word.push(c),
        }
    }
    Some(word)
}

/// A word without its quotes and backslashes, roughly.
fn unquoted(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '\'', '"']) {
        return Cow::Borrowed(text);
    }
    let mut word = String::with_capacity(text.len());
    let mut quote = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (None, '$') if matches!(rest.peek(), Some('\'' | '"')) => {}
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None | Some('"'), '\\') => word.extend(rest.next().filter(|c| *c != '\n')),
            (_, c) => word.push(c),
        }
    }
    Cow::Owned(word)
}

/// Commands of a text that has no grammar: whatever stands between operators, wherever quotes begin and end.
fn scan(text: &str) -> impl Iterator<Item = Vec<String>> {
    text.split(['\n', ';', '&', '|', '(', ')', '{', '}', '`']).map(|piece| {
        let words = piece.split_whitespace().map(|word| unquoted(word).into_owned());
        words.skip_while(|word| RESERVED.contains(&word.as_str()) || word.contains('=')).collect()
    })
}

#[cfg(test)]
#[path = "script/tests.rs"]
mod tests;
