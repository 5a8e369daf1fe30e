"""What is read of compose files, and what is said about those that make no sense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coworld_core.errors import ManifestError, UsageError
from coworld_core.issues import Issue
from coworld_runner.images.compose import (
    COMPOSE_NAMES,
    ComposeFile,
    contexts_for,
    find_compose,
    interpolate,
    load_compose,
    read_env_file,
)

Load = Callable[..., ComposeFile]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Read a compose file from its text, with an environment of its own."""

    def read(text: str, environment: Mapping[str, str] | None = None) -> ComposeFile:
        path = tmp_path / "compose.yaml"
        path.write_text(text, encoding="utf-8")
        return load_compose(path, environment=environment or {})

    return read


def refused(load: Load, text: str, environment: Mapping[str, str] | None = None) -> list[Issue]:
    with pytest.raises(ManifestError) as caught:
        load(text, environment)
    assert caught.value.report.source.endswith("compose.yaml")
    return [*caught.value.report.errors]


# --- what is read


def test_the_usual_shapes_of_build(load: Load, tmp_path: Path) -> None:
    compose = load(
        """
        services:
          game-server:
            image: ghcr.io/me/game:1.0
            platform: linux/amd64
            build:
              context: ./game
              dockerfile: docker/Dockerfile
              target: run
              args: {A: 1, B: "two words", YES: yes, EMPTY: ""}
              platforms: [linux/amd64, linux/arm64]
            ports: ["8080:8080"]
            depends_on: [player]
          player:
            image: player
            build: players/first
          reporter:
            image: report:2
        volumes: {data: {}}
        x-anything: [1, {2: 3}]
        """
    )
    game, player, reporter = compose.services
    assert game.build is not None
    assert game.build.context == tmp_path / "game"
    assert (game.build.dockerfile, game.build.target) == ("docker/Dockerfile", "run")
    assert game.build.args == {"A": "1", "B": "two words", "YES": "yes", "EMPTY": ""}
    assert game.build.platforms == ("linux/amd64", "linux/arm64")
    assert (game.image, game.platform) == ("ghcr.io/me/game:1.0", "linux/amd64")
    assert player.build is not None
    assert player.build.context == tmp_path / "players/first"
    assert reporter.build is None
    assert compose.placeholders() == {
        "{{GAME_SERVER_IMAGE}}": "ghcr.io/me/game:1.0",
        "{{PLAYER_IMAGE}}": "player",
        "{{REPORTER_IMAGE}}": "report:2",
    }
    assert not compose.report.issues
    assert compose.service("player") is player


def test_args_as_a_list_and_from_the_environment(load: Load) -> None:
    compose = load(
        "services: {a: {image: a, build: {args: [A=1, 'B=x=y', HERE, NOWHERE]}},"
        " b: {image: b, build: {args: {HERE: null, NOWHERE: , C: '${HERE}!'}}}}",
        {"HERE": "ici"},
    )
    first, second = (service.build for service in compose.services)
    assert first is not None
    assert second is not None
    assert first.args == {"A": "1", "B": "x=y", "HERE": "ici"}
    assert second.args == {"HERE": "ici", "C": "ici!"}


def test_a_context_may_be_absolute_above_or_at_home(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    compose = load(
        f"services: {{a: {{image: a, build: {tmp_path}/x}}, b: {{image: b, build: ../y}},"
        " c: {image: c, build: '~/z'}, d: {image: d, build: {target: t}}}"
    )
    assert [service.build and service.build.context for service in compose.services] == [
        tmp_path / "x",
        tmp_path.parent / "y",
        tmp_path / "home" / "z",
        tmp_path,
    ]


def test_an_image_without_a_name_gets_the_one_compose_gives_it(load: Load) -> None:
    text = "services: {Web_App: {build: .}}"
    assert load("name: My.Game\n" + text).services[0].image == "mygame-web_app"
    assert load(text, {"COMPOSE_PROJECT_NAME": "other"}).services[0].image == "other-web_app"
    assert load(text).project == load("services: {b: {build: .}}").project != ""


def test_anchors_and_merge_keys(load: Load, tmp_path: Path) -> None:
    compose = load(
        """
        x-build: &build {context: ./shared, target: base}
        x-both: &both
          - {image: first, platform: linux/arm64}
          - {image: second}
        services:
          a: {image: a, build: {<<: *build, target: own}}
          b: {<<: *both}
        """
    )
    a, b = compose.services
    assert a.build is not None
    assert (a.build.context, a.build.target) == (tmp_path / "shared", "own")
    assert (b.image, b.platform) == ("first", "linux/arm64")


def test_ignored_build_settings_are_reported(load: Load) -> None:
    compose = load("services: {a: {image: a, build: {context: ., secrets: [s], additional_contexts: {x: y}}}}")
    assert {issue.pointer for issue in compose.report.warnings} == {
        "/services/a/build/secrets",
        "/services/a/build/additional_contexts",
    }
    assert compose.report.ok


# --- further files


def written(root: Path, **files: str) -> ComposeFile:
    """Write files, and read the compose file; names have `__` for a slash and `_` for a dot."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return load_compose(root / "compose.yaml", environment={"BASE": "python:3.12"})


def test_a_service_is_merged_over_what_it_extends(tmp_path: Path) -> None:
    compose = written(
        tmp_path,
        compose_yaml="services:\n  a:\n    extends: {file: shared/common.yaml, service: b}\n    image: own:1\n"
        "    build: {target: final, args: [MORE=1]}\n  c: {extends: a, image: c:1, build: .}\n",
        shared__common_yaml="services:\n  base: {platform: linux/amd64, build: {context: here}}\n"
        "  b: {extends: base, image: x:1, build: {dockerfile: D, target: t, args: {BASE: '${BASE:?set it}'}}}\n",
    )
    a, c = compose.services
    assert (a.image, a.platform) == ("own:1", "linux/amd64")
    assert a.build is not None
    assert (a.build.context, a.build.dockerfile, a.build.target) == (tmp_path / "shared/here", "D", "final")
    assert a.build.args == {"BASE": "python:3.12", "MORE": "1"}
    assert c.build == replace(a.build, context=tmp_path)
    assert not compose.report.issues


def test_included_files_add_their_services_with_their_own_variables(tmp_path: Path) -> None:
    compose = written(
        tmp_path,
        compose_yaml="include:\n  - one/compose.yaml\n  - {path: [two.yaml, three.yaml], project_directory: two}\n"
        "services: {own: {image: own:1}}\n",
        one__compose_yaml="services: {one: {build: '${WHERE}'}}\n",
        one___env="WHERE=below\nBASE=hidden\n",
        two_yaml="services: {two: {image: 'two:${BASE}', build: .}}\n",
        three_yaml="services: {two: {image: three:1}}\n",
    )
    found = {service.name: (service.image, service.build and service.build.context) for service in compose.services}
    assert found == {
        "one": (f"{compose.project}-one", tmp_path / "one/below"),
        "two": ("three:1", tmp_path / "two"),
        "own": ("own:1", None),
    }


@pytest.mark.parametrize("name", ["compose_override_yaml", "docker-compose_override_yml"])
def test_override_file_is_merged_over_a_file_that_was_found(tmp_path: Path, name: str) -> None:
    override = "services:\n  a: {image: a:2, build: {args: !reset null, platforms: [linux/arm64]}}\n  b: {image: b}\n"
    files = {
        "compose_yaml": "services: {a: {image: a:1, build: {context: ., args: {A: 1}, platforms: [linux/amd64]}}}",
        name: override,
    }
    a, b = written(tmp_path, **files).services
    assert (a.image, b.image) == ("a:2", "b")
    assert a.build is not None
    assert (a.build.args, a.build.platforms) == ({}, ("linux/amd64", "linux/arm64"))
    alone = load_compose(tmp_path / "compose.yaml", environment={}, overridden=False)
    assert [service.image for service in alone.services] == ["a:1"]


@pytest.mark.parametrize(
    ("files", "code", "said"),
    [
        ({"compose_yaml": "services: {a: {extends: b}, c: {}}"}, "extends_unknown", "has no service 'b'"),
        ({"compose_yaml": "services: {a: {extends: {file: x.yaml, service: b}}}"}, "compose_missing", "'x.yaml'"),
        ({"compose_yaml": "services: {a: {extends: b}, b: {extends: a}}"}, "extends_circle", "extends itself"),
        ({"compose_yaml": "include: [compose.yaml]"}, "include_circle", "includes itself"),
        ({"compose_yaml": "include: [oci://x/y]"}, "compose_missing", "oci://x/y"),
        (
            {"compose_yaml": "include: [b.yaml]\nservices: {a: {image: a}}", "b_yaml": "services: {a: {image: a}}"},
            "service_twice",
            "'a' is in an included file, too",
        ),
        (
            {
                "compose_yaml": "services: {a: {extends: {file: b.yaml, service: a}}}",
                "b_yaml": "services:\n  a:\n    image: A\n",
            },
            "bad_image",
            "b.yaml:3: The image 'A'",
        ),
        ({"compose_yaml": "include: [b.yaml]", "b_yaml": "services: ["}, "not_yaml", "b.yaml:2: The file is not YAML"),
    ],
)
def test_what_is_wrong_with_a_further_file_is_said(tmp_path: Path, files: dict[str, str], code: str, said: str) -> None:
    with pytest.raises(ManifestError) as caught:
        written(tmp_path, **files)
    issue = caught.value.report.errors[0]
    assert issue.code == code
    assert said in issue.message


def test_build_arguments_are_not_shown(load: Load) -> None:
    compose = load("services: {a: {image: a, build: {context: ., args: {TOKEN: hush}}}}")
    assert "hush" not in repr(compose)


# --- variables


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A-${A}", "one-one"),
        ("${A:-x}${E:-x}${U:-x}", "onexx"),
        ("${A-x}${E-x}${U-x}", "onex"),
        ("${A:+x}${E:+x}${U:+x}", "x"),
        ("${A+x}${E+x}${U+x}", "xx"),
        ("${U:-${V:-${A}}}", "one"),
        ("${U:-a}b}", "ab}"),
        ("${U:-http://h:80/}", "http://h:80/"),
        ("$$A $$$A", "$A $one"),
        ("${A:?must}", "one"),
        ("[$U]", "[]"),
        ("no variables", "no variables"),
    ],
)
def test_variables_are_filled_in(text: str, expected: str) -> None:
    assert interpolate(text, {"A": "one", "E": ""}) == expected


@pytest.mark.parametrize("text", ["$", "a$ b", "${", "${A", "${A:-${B}", "${}", "${1A}", "${A!b}", "$1", "${A:x}"])
def test_malformed_variable_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"dollar sign|never closed|not a variable"):
        interpolate(text, {"A": "one"})


def test_a_required_variable_says_why(load: Load) -> None:
    with pytest.raises(ValueError, match=r"^The variable TAG is required but not set: say which, one\.$"):
        interpolate("${TAG:?say which, ${A}}", {"A": "one"})
    (issue,) = refused(load, "services:\n  a:\n    image: a:${TAG?}\n")
    assert (issue.code, issue.line, issue.pointer) == ("bad_variable", 3, "/services/a/image")


def test_deeply_nested_variables_end(load: Load) -> None:
    text = "${U:-" * 3000 + "x" + "}" * 3000
    with pytest.raises(ValueError, match="nested"):
        interpolate(text, {})


@given(st.text(alphabet="aA$ {}:-?+_1\\", max_size=40))
def test_any_text_is_filled_in_or_refused(text: str) -> None:
    try:
        result = interpolate(text, {"A": "value"})
    except ValueError:
        return
    assert "$" not in result or "$$" in text


def test_unset_variable_is_empty_and_reported_once(load: Load) -> None:
    compose = load("services:\n  a: {image: 'a$U', platform: '$U'}\n  b: {image: 'b$U'}\n")
    assert [service.image for service in compose.services] == ["a", "b"]
    (issue,) = compose.report.warnings
    assert (issue.code, issue.line) == ("variable_unset", 2)


def test_the_environment_goes_before_the_env_file(load: Load, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=file\nB=file\n", encoding="utf-8")
    compose = load("services: {a: {image: '$A-$B'}}", {"A": "env"})
    assert compose.services[0].image == "env-file"


def test_a_broken_env_file_is_named(load: Load, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\nwhat is this\n", encoding="utf-8")
    (issue,) = refused(load, "services: {a: {image: a}}")
    assert issue.code == "env_file"
    assert "Line 2" in issue.message
    (tmp_path / ".env").write_bytes(b"A=\xff\n")
    assert "UTF-8" in refused(load, "services: {a: {image: a}}")[0].message


def test_an_env_file() -> None:
    text = "\ufeff" + "\r\n".join(
        [
            "# a comment",
            "",
            "PLAIN = value  # comment",
            "export SHELL_LIKE=yes",
            "HASH=a#b",
            "EMPTY=",
            "BARE",
            "SINGLE='$PLAIN # kept'",
            'DOUBLE="two\\nlines ${PLAIN} \\$PLAIN \\"q\\" \\\\ \\d"',
            'MANY="first',
            'second"',
            "REFERS=${PLAIN}/$KNOWN/${U:-d}",
            "MONEY=$$5",
        ]
    )
    assert read_env_file(text, {"KNOWN": "k"}) == {
        "PLAIN": "value",
        "SHELL_LIKE": "yes",
        "HASH": "a#b",
        "EMPTY": "",
        "SINGLE": "$PLAIN # kept",
        "DOUBLE": 'two\nlines value $PLAIN "q" \\ \\d',
        "MANY": "first\nsecond",
        "REFERS": "value/k/d",
        "MONEY": "$5",
    }


@pytest.mark.parametrize("text", ["=1", "1A=2", "A='open", 'A="open\\"', "A=${", "A B=1"])
def test_env_file_line_without_assignment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Line 2: "):
        read_env_file(f"OK=1\n{text}\n")


# --- nonsense


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("", "compose_empty", None),
        ("# only a comment\n", "compose_empty", None),
        ("just words", "wrong_type", 1),
        ("- a\n- list\n", "wrong_type", 1),
        ("services: [a\n", "not_yaml", 2),
        ("a: 1\n---\nb: 2\n", "not_yaml", 2),
        ("services:\n  a: {image: *nowhere}\n", "not_yaml", 2),
        ("a: b\n\tc: d\n", "not_yaml", 2),
        ("version: '3'\n", "services_missing", 1),
        ("sevices: {a: {image: a}}\n", "services_missing", 1),
        ("services: {}\n", "services_missing", 1),
        ("services: []\n", "wrong_type", 1),
        ("services:\n", "wrong_type", 1),
        ("services:\n  a: text\n", "wrong_type", 2),
        ("services:\n  a:\n", "wrong_type", 2),
        ("services:\n  a: {ports: []}\n", "image_missing", 2),
        ("services:\n  a:\n    image: [x]\n", "wrong_type", 3),
        ("services:\n  a:\n    image:\n", "wrong_type", 3),
        ("services:\n  a:\n    image: ''\n", "bad_image", 3),
        ("services:\n  a:\n    image: -rm\n", "bad_image", 3),
        ("services:\n  a:\n    image: Upper:1\n", "bad_image", 3),
        ("services:\n  a:\n    image: 'a b'\n", "bad_image", 3),
        ("services:\n  a:\n    image: '{{A_IMAGE}}'\n", "image_placeholder", 3),
        ("services:\n  a:\n    image: a$\n", "bad_variable", 3),
        ("services:\n  a b: {image: a}\n", "bad_service_name", 2),
        ("services:\n  a: {image: a}\n  a: {image: b}\n", "duplicate_key", 3),
        ("services:\n  a-b: {image: a}\n  a_b: {image: b}\n", "placeholder_clash", 3),
        ("services:\n  a: {image: a, image: b}\n", "duplicate_key", 2),
        ("services:\n  [a]: {image: a}\n", "bad_key", 2),
        ("services:\n  a: {image: a, platform: amd64}\n", "bad_platform", 2),
        ("services:\n  a: {image: a, build: [.]}\n", "wrong_type", 2),
        ("services:\n  a: {image: a, build: ''}\n", "context_empty", 2),
        ("services:\n  a: {image: a, build: 'https://u:p@host/x.git'}\n", "context_remote", 2),
        ("services:\n  a: {image: a, build: {context: 'git@host:x.git'}}\n", "context_remote", 2),
        ("services:\n  a: {image: a, build: {args: 7}}\n", "wrong_type", 2),
        ("services:\n  a: {image: a, build: {args: [[1]]}}\n", "wrong_type", 2),
        ("services:\n  a: {image: a, build: {args: {A: [1]}}}\n", "wrong_type", 2),
        ("services:\n  a: {image: a, build: {platforms: linux/amd64}}\n", "wrong_type", 2),
        ("services:\n  a: {image: a, build: {platforms: [windows]}}\n", "bad_platform", 2),
        ("services:\n  a: {image: a, build: {dockerfile: D, dockerfile_inline: FROM x}}\n", "dockerfile_twice", 2),
        ("services:\n  a: {<<: [1], image: a}\n", "bad_merge", 2),
        ("services:\n  a: &a {<<: *a, image: a}\n", "bad_merge", 2),
    ],
)
def test_invalid_compose_file_is_refused_with_file_and_line(load: Load, text: str, code: str, line: int | None) -> None:
    issues = refused(load, text)
    assert (issues[0].code, issues[0].line) == (code, line)
    assert "u:p" not in issues[0].message


def test_all_issues_are_listed_at_once(load: Load) -> None:
    issues = refused(load, "services:\n  a: {image: A}\n  b: {image: $}\n  c: 1\n  d: {}\n")
    assert [issue.line for issue in issues] == [2, 3, 4, 5]


def test_issues_of_one_line_stand_in_its_order_and_point_at_the_key(load: Load) -> None:
    issues = refused(load, "services: {a-b: {image: A, platform: amd64}, a_b: 1}\n")
    assert [(issue.code, issue.pointer) for issue in issues] == [
        ("bad_image", "/services/a-b/image"),
        ("bad_platform", "/services/a-b/platform"),
        ("placeholder_clash", "/services/a_b"),
        ("wrong_type", "/services/a_b"),
    ]


def test_a_misspelt_top_key_is_recognised(load: Load) -> None:
    (issue,) = refused(load, "servces: {a: {image: a}}\n")
    assert issue.hint is not None
    assert "servces" in issue.hint


def test_aliases_cannot_blow_a_file_up(load: Load) -> None:
    lines = ["x0: &x0 {image: a}"]
    lines += [f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 20)}]}}" for n in range(1, 60)]
    assert load("\n".join([*lines, "services: {a: *x59}"])).services[0].image == "a"


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000, "a: " + "{a: " * 100_000, "- " * 100_000])
def test_deep_nesting_is_refused_not_followed(load: Load, text: str) -> None:
    assert refused(load, text)[0].code == "compose_too_deep"


def test_a_huge_file_is_not_read(load: Load) -> None:
    assert refused(load, "services: {a: {image: a}}\n#" + "x" * (1 << 20))[0].code == "compose_too_large"


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    path.write_bytes(b"services:\n  a: {image: \xff}\n")
    with pytest.raises(ManifestError) as caught:
        load_compose(path)
    assert (caught.value.report.errors[0].code, caught.value.report.errors[0].line) == ("not_utf8", 2)


def test_a_missing_or_unreadable_file_is_the_callers_mistake(tmp_path: Path) -> None:
    (tmp_path / "compose.yml").write_text("services: {}", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_compose(tmp_path / "compose.yaml")
    assert caught.value.hint is not None
    assert "compose.yml" in caught.value.hint
    with pytest.raises(UsageError):
        load_compose(tmp_path)


@given(st.text(max_size=120))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "compose.yaml"
    path.write_text(text, encoding="utf-8", errors="replace", newline="")
    try:
        compose = load_compose(path, environment={})
    except ManifestError:
        return
    assert compose.services


# --- finding files and contexts


def test_every_name_of_a_compose_file_is_found_in_its_order(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    assert find_compose(package) is None
    (tmp_path / "compose.yml").touch()
    assert find_compose(package) == tmp_path / "compose.yml"
    for name in reversed(COMPOSE_NAMES):
        (package / name).touch()
        assert find_compose(package) == package / name


def test_contexts_are_found_by_placeholder_image_and_content_tag(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(
        "services: {game: {image: 'ghcr.io/me/game:1', build: g}, player: {image: p, build: p}, db: {image: pg}}",
        encoding="utf-8",
    )
    manifest = tmp_path / "coworld_manifest.json"
    manifest.touch()
    for package in (tmp_path, manifest):
        contexts = contexts_for(package)
        for image in (
            "{{GAME_IMAGE}}",
            "ghcr.io/me/game:1",
            "ghcr.io/me/game:coworld-0123456789ab",
            "ghcr.io/me/game@sha256:" + "0" * 64,
        ):
            assert contexts[image] == tmp_path / "g"
            assert image in contexts
        assert contexts["p:coworld-0123456789ab"] == tmp_path / "p"
        for image in ("{{DB_IMAGE}}", "pg", "me/game:1", "unknown", "not an image", ""):
            assert image not in contexts
        assert set(contexts) == {"{{GAME_IMAGE}}", "ghcr.io/me/game:1", "{{PLAYER_IMAGE}}", "p"}


def test_tags_of_one_repository_with_several_contexts_are_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(
        "services: {a: {image: 'x:a', build: a}, b: {image: 'x:b', build: b},"
        " c: {image: 'y:c', build: c}, d: {image: 'y:d', build: {context: c, target: d}}}",
        encoding="utf-8",
    )
    contexts = contexts_for(tmp_path)
    assert contexts["x:a"] == tmp_path / "a"
    assert "x:coworld-0123456789ab" not in contexts
    assert contexts["y:coworld-0123456789ab"] == tmp_path / "c"


def test_a_package_without_a_compose_file_has_no_contexts(tmp_path: Path) -> None:
    package = tmp_path / "a" / "b"
    package.mkdir(parents=True)
    assert len(contexts_for(package)) == 0
