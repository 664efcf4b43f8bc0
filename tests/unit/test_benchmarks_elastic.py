"""The client of Elasticsearch against a server that answers as its documentation says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from elastic_transport import ApiResponseMeta, BaseNode, HttpHeaders, NodeConfig
from elastic_transport._node import NodeApiResponse
from elasticsearch import Elasticsearch
from elasticsearch.helpers import BulkIndexError

from agentmem import Document
from benchmarks.systems._elastic import ElasticWords


class Server(BaseNode):
    """Takes the place of the connection; finds documents that share a word with the question."""

    documents: dict[str, dict[str, Any]]
    indices: set[str]

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        type(self).documents, type(self).indices = {}, set()

    def perform_request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: HttpHeaders | None = None,
        request_timeout: Any = None,
    ) -> NodeApiResponse:
        path, _, options = target.partition("?")
        index, *rest = path.strip("/").split("/")
        sent = (body or b"").decode()
        status, answer = 200, {"acknowledged": True}
        match method, *rest:
            case ["PUT"] if index == "_bulk":
                assert options == "refresh=true"
                answer = self._bulk([json.loads(line) for line in sent.splitlines()])
            case ["PUT"]:
                assert set(json.loads(sent)["mappings"]["properties"]) == {"content", "collection"}
                self.indices.add(index)
            case ["PUT" | "POST", "_search"]:
                answer = self._search(json.loads(sent))
            case ["DELETE"]:
                self.indices.remove(index)
            case ["DELETE", "_doc", key]:
                assert "refresh=true" in options
                del self.documents[key]
            case ["HEAD", "_doc", key]:
                status = 200 if key in self.documents else 404
            case _:
                pytest.fail(f"the server knows no {method} {target}")
        kind = "application/vnd.elasticsearch+json"
        about = {"x-elastic-product": "Elasticsearch", "content-type": kind}
        meta = ApiResponseMeta(status, "1.1", HttpHeaders(about), 0.0, self.config)
        return NodeApiResponse(meta, json.dumps(answer).encode())

    def close(self) -> None:
        pass

    def _bulk(self, lines: list[dict[str, Any]]) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        for action, source in zip(lines[::2], lines[1::2], strict=True):
            head = action["index"]
            assert head["_index"] in self.indices
            if "refused" in source["content"]:
                error = {"type": "mapper_parsing_exception"}
                items.append({"index": {"_id": head["_id"], "status": 400, "error": error}})
            else:
                self.documents[head["_id"]] = source
                items.append({"index": {"_id": head["_id"], "status": 201}})
        return {"errors": any("error" in item["index"] for item in items), "items": items}

    def _search(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert asked["_source"] is False
        bool_query = asked["query"]["bool"]
        words = set(bool_query["must"]["match"]["content"].split())
        collection = bool_query["filter"][0]["term"]["collection"]
        allowed = [entry["ids"]["values"] for entry in bool_query["filter"][1:]]
        hits = [
            {"_id": key}
            for key, source in self.documents.items()
            if words & set(source["content"].split())
            and source["collection"] == collection
            and all(key in keys for keys in allowed)
        ]
        return {"hits": {"hits": hits[: asked["size"]]}}


@pytest.fixture
def words() -> ElasticWords:
    return ElasticWords(Elasticsearch("http://search.example:9200", node_class=Server), pool=100)


def test_documents_come_and_go(words: ElasticWords) -> None:
    words.add([Document("red kite", key="a"), Document("red boat", key="b", collection="sea")])
    assert words.find("a red thing", None, "default") == ["a"]
    assert words.find("a red thing", ["b"], "sea") == ["b"]
    assert words.find("a red thing", ["a"], "sea") == []
    assert words.holds("a")
    words.remove("a")
    assert not words.holds("a")
    words.close()
    assert Server.indices == set()


def test_what_the_server_refuses_is_an_error(words: ElasticWords) -> None:
    with pytest.raises(BulkIndexError, match="failed to index"):
        words.add([Document("taken", key="a"), Document("refused", key="b")])
    words.close()
