"""The files of `deploy/` pass their linters, agree with each other, and name metrics that exist."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import kubernetes_validate
import promql_parser
import pytest
import yaml
from tests.support.streams.toy import HashResidents

from paramfilter_streams import FileLog, Store, Worker
from paramfilter_streams.serving import Metrics, read_configuration
from paramfilter_streams.snapshots.schedule import Schedule, Snapshots
from paramfilter_streams.snapshots.taking import Taken

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = [
    rule
    for group in yaml.safe_load((DEPLOY / "paramfilter-alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
QUERIES = [rule["expr"] for rule in ALERTS] + [one["expr"] for panel in DASHBOARD["panels"] for one in panel["targets"]]
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
KUBERNETES = "1.31"


@pytest.fixture
def shown(tmp_path):
    """Names of the metrics that a service with snapshots shows."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "1.jsonl").write_bytes(b"poison\n")
    residents = HashResidents()
    worker = Worker(residents, FileLog(tmp_path / "log"), Store(tmp_path / "store", residents.identity))
    worker.run(lambda: False, until_idle=True)
    schedule = Schedule(tmp_path / "store", Snapshots(str(tmp_path / "kept")))
    schedule.last = Taken(1, 0.0, 1.0, 2, 3)
    yield {line.split("{")[0].split(" ")[0] for line in Metrics(worker, schedule).text().decode().splitlines()}
    worker.close()


def test_each_metric_that_alerts_and_dashboard_name_exists(shown):
    named = set(re.findall(r"\bparamfilter_\w+", " ".join(QUERIES)))
    assert len(named) >= 15 and named <= shown, named - shown
    of_ours = {
        one for one in shown if one.startswith("paramfilter_") and not one.endswith(("_created", "_sum", "_count"))
    }
    assert of_ours <= named, f"shown and on no dashboard: {of_ours - named}"


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_is_promql(query):
    promql_parser.parse(query.replace("$partition", ".*"))


def test_the_dashboard_has_places_for_its_panels():
    panels = DASHBOARD["panels"]
    assert len({one["id"] for one in panels}) == len(panels) >= 12
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and all(x < 24 for x, _ in cells), panel["title"]
        taken |= cells
        assert panel["datasource"]["uid"] == "${source}" and panel["title"]
    names = {one["name"] for one in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) <= names


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_alerts():
    command = ["promtool", "check", "rules", str(DEPLOY / "paramfilter-alerts.yml")]
    assert f"{len(ALERTS)} rules found" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def alert_test(name: str, minutes: int, series: dict[str, str], labels: dict[str, str] | None = None) -> dict:
    """Return a test for promtool: with these series, this alert fires at the end, and not before its time."""
    fires = {"exp_labels": labels or {}}
    return {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "alert_rule_test": [
            {"eval_time": "1m", "alertname": name, "exp_alerts": []},
            {"eval_time": f"{minutes}m", "alertname": name, "exp_alerts": [fires]},
        ],
    }


QUARANTINED = 'paramfilter_events_total{partition="0",fate="quarantined"}'
RECEIVED = 'paramfilter_events_received_total{partition="0"}'


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(
    "case",
    [
        alert_test("ParamfilterNotReady", 12, {"paramfilter_ready": "0x20"}),
        alert_test("ParamfilterLogUnreachable", 10, {"paramfilter_log_last_read_timestamp_seconds": "0x20"}),
        alert_test("ParamfilterFallsBehind", 40, {"paramfilter_log_lag": "9000+500x60"}),
        alert_test("ParamfilterQuarantine", 20, {QUARANTINED: "0+2x30", RECEIVED: "0+100x30"}, {"partition": "0"}),
        alert_test("ParamfilterOldSnapshot", 80, {"paramfilter_snapshot_timestamp_seconds": "0x90"}),
        alert_test("ParamfilterSnapshotsFail", 3, {"paramfilter_snapshot_failures_total": "0 0 1 1 1"}),
        alert_test("ParamfilterDown", 6, {'up{job="paramfilter"}': "0x10"}, {"job": "paramfilter"}),
    ],
    ids=lambda one: one["alert_rule_test"][0]["alertname"],
)
def test_alerts_fire_when_they_should(case, tmp_path):
    rules = {rule["alert"]: rule for rule in ALERTS}
    for one in case["alert_rule_test"]:
        for fires in one["exp_alerts"]:
            text = rules[one["alertname"]]["annotations"]["summary"]
            labels = fires["exp_labels"]
            summary = re.sub(r"{{ \$labels\.(\w+) }}", lambda found, labels=labels: labels[found[1]], text)
            fires["exp_annotations"] = {"summary": summary}
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(DEPLOY / "paramfilter-alerts.yml")], "tests": [case]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_hadolint_accepts_the_containerfile():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DEPLOY / "Containerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one["kind"])
def test_kubernetes_knows_each_field_of_the_manifests(manifest):
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    broken = json.loads(json.dumps(manifest).replace('"name":', '"nam":', 1))
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**broken, "spec": {**broken["spec"], "replica": 2}}, KUBERNETES, strict=True)


def test_manifests_image_and_configuration_agree():
    (worker,) = (one for one in MANIFESTS if one["kind"] == "StatefulSet")
    template = worker["spec"]["template"]
    pod, (container,) = template["spec"], template["spec"]["containers"]
    image = (DEPLOY / "Containerfile").read_text()
    configuration = tomllib.loads((DEPLOY / "fleet.toml").read_text())
    port = configuration["http"]["port"]
    assert container["ports"] == [{"name": "http", "containerPort": port}] and f"EXPOSE {port}" in image
    assert template["metadata"]["labels"].items() >= worker["spec"]["selector"]["matchLabels"].items()
    assert f"USER {pod['securityContext']['runAsUser']}" in image
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    volumes = {one["name"] for one in pod["volumes"]} | {
        one["metadata"]["name"] for one in worker["spec"]["volumeClaimTemplates"]
    }
    assert mounts.keys() == volumes
    assert configuration["store"]["path"].startswith(mounts["state"] + "/")
    assert configuration["snapshots"]["target"].startswith(mounts["snapshots"] + "/")
    assert configuration["http"]["token_file"].startswith(mounts["token"] + "/")
    assert f'CMD ["{mounts["configuration"]}/fleet.toml"]' in image
    probes = {container[one]["httpGet"]["path"] for one in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {"/health", "/ready"} and worker["spec"]["replicas"] == 1


def test_the_configuration_can_be_read():
    configuration = read_configuration(DEPLOY / "fleet.toml")
    assert configuration.algorithm == "node_filter"
    assert configuration.snapshots is not None and configuration.snapshots.keep == 3


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path):
    unit = tmp_path / "paramfilter.service"
    text = (DEPLOY / "paramfilter.service").read_text()
    unit.write_text(text.replace("/opt/paramfilter/bin/paramfilter", sys.executable))  # a program that is here
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "paramfilter" not in done.stderr, done.stderr
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=25", unit]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
