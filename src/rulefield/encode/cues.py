"""Word lists that tell the fields of a citation apart, written for this library; for ``TokenFeatures(lexicons=...)``."""

_CITATION_CUES: dict[str, str] = {
    "month": """january february march april may june july august september october november december jan feb mar apr jun
        jul aug sep sept oct nov dec spring summer autumn fall winter""",
    "name joiner": "and & et al et. al.",
    "name particle": "van de von der den della di la le du da dos ter ten del el bin ibn jr sr iii",
    "editor": "editor editors eds ed edited hrsg",
    "in": "in",
    "event": """proc proceedings conference conf symposium symp workshop colloquium congress meeting seminar convention
        forum summer school session annual international intl int'l joint national european american annu ann
        first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
        fifteenth sixteenth seventeenth eighteenth nineteenth twentieth proceeding advances topics handbook readings
        1st 2nd 3rd 4th 5th 6th 7th 8th 9th 10th 11th 12th 13th 14th 15th 16th 17th 18th 19th 20th 21st 22nd 23rd 24th
        25th""",
    "event name": """aaai ijcai ecai icml colt nips kdd ecml ilp sigir sigmod vldb pods icde popl pldi oopsla ecoop lics cav
        tacas icalp stacs mfcs stoc focs soda podc spaa isca asplos micro hpca sosp osdi usenix sigcomm infocom icc
        globecom sigmetrics iccad dac date siggraph chi uist cscw hypertext acl coling eacl emnlp iccv eccv cvpr icassp
        eurospeech interspeech icra iros icann ijcnn icnn ppsn gecco icga foga ecal concur esop fme sigplan sigact
        sigops sigarch supercomputing ipps icpp pact ics ppopp lcpc lfp icfp interact icnp""",
    "series": """lecture notes lncs lnai lnm series studies monographs monograph contributions tracts texts""",
    "society": "ieee acm siam iee ifip aaai ams bcs ieice eatcs usenix spie asme esa nato iapr eurographics asa ima",
    "journal": """journal transactions trans letters lett review reviews rev annals bulletin magazine archive archives acta
        quarterly surveys gazette newsletter notices comptes rendus zeitschrift j communications comm commun comp comput
        sci math phys appl mech engrg engng eng biol chem soc statist stat psychol psych technometrics biometrika
        econometrica nature science informatica informatik algorithmica cognition computer computing software
        biosystems complexity""",
    "journal name": """artificial intelligence; machine learning; neural computation; neural networks; information and
        computation; information and control; theoretical computer science; acta informatica; distributed computing;
        parallel computing; cognitive science; pattern recognition; computational linguistics; biological cybernetics;
        communications of the acm; cacm; commun. acm; computing surveys; comput. surv.; operations research; management
        science; mathematical programming; discrete applied mathematics; discrete mathematics; combinatorica; fuzzy sets
        and systems; computer networks; performance evaluation; software practice and experience; software - practice
        and experience; science of computer programming; formal aspects of computing; lisp and symbolic computation; new
        generation computing; evolutionary computation; complex systems; adaptive behavior; knowledge acquisition; data
        mining and knowledge discovery; information systems; information processing letters; inf. process. lett.;
        computer vision, graphics, and image processing; image and vision computing; signal processing; automatica;
        numerische mathematik; mathematics of computation; linear algebra and its applications; physica d; physical
        review letters; american scientist; scientific american; psychological review; real-time systems; bit; ai
        magazine; ai communications; toplas; tocs; tods; tois; tosem; jacm; j. acm; sigplan notices; proc. ieee""",
    "publisher": """press publisher publishers publishing publications pub verlag books book springer springer-verlag elsevier
        wiley kluwer north-holland holland addison-wesley addison wesley kaufmann kaufman morgan mcgraw-hill mcgraw hill
        prentice-hall prentice hall academic mit freeman harper row macmillan pergamon plenum benjamin cummings
        benjamin/cummings birkhauser birkhäuser sage routledge erlbaum lawrence dover holt rinehart winston wadsworth
        brooks/cole
        siam chapman crc marcel dekker teubner oxford cambridge princeton harvard yale stanford chicago university
        blackwell longman pitman ellis horwood world scientific allyn bacon van nostrand reinhold interscience sons
        co inc ltd company north norton penguin random house houghton mifflin o'reilly artech ablex gordon breach
        clarendon basic computer society masson dunod hermes ios csli""",
    "company": "inc ltd co corp corporation company gmbh s.a limited bell at&t ibm dec xerox microsoft sun hp nec rand sri",
    "institution": """university univ universitat universität universite université universiteit institute institut inst
        department dept laboratory laboratories lab labs school college faculty center center division research academy
        polytechnic technology technische ecole école instituto tech inria cwi mit cmu csli icsi sri nasa darpa gmd rand
        rutgers stanford berkeley carnegie mellon cornell harvard princeton yale caltech purdue eth epfl dfki ecrc""",
    "report": """technical report tech rep tr memo memorandum note working paper manuscript rapport bericht cs-tr
        research deliverable document documentation manual patent specification version rfc draft""",
    "thesis": "thesis dissertation phd ph.d doctoral master's masters master msc m.s m.sc diploma diplomarbeit habilitation",
    "status": """press submitted appear appears appeared preparation accepted forthcoming unpublished preprint presented
        published publication communication personal draft invited available reprinted also see to version special issue
        preliminary extended abstract""",
    "edition": "edition edn revised ed second third",
    "pages": "pages pp page p pgs pg",
    "volume": "volume vol vols v band tome chapter chap part",
    "number": "number no nos issue nr",
    "function word": """of the a an on for to by from at as is are via using with into its their toward toward under
        over between
        within without how what why when that which or not can be we""",
    "state": """al ak az ar ca co ct de fl ga hi id il in ia ks ky la me md ma mi mn ms mo mt ne nv nh nj nm ny nc nd oh ok or
        pa ri sc
        sd tn tx ut vt va wa wv wi wy d.c n.j n.y alabama alaska arizona arkansas california colorado connecticut delaware
        florida georgia hawaii idaho illinois indiana iowa kansas kentucky louisiana maine maryland massachusetts
        michigan minnesota mississippi missouri montana nebraska nevada ohio oklahoma oregon pennsylvania tennessee
        texas utah vermont virginia washington wisconsin wyoming calif mass conn penn""",
    "country": """usa u.s.a us u.s uk u.k england scotland wales ireland france germany w.germany austria switzerland
        italy spain
        portugal netherlands belgium luxembourg denmark sweden norway finland iceland poland hungary greece turkey
        israel egypt india china japan korea taiwan singapore australia canada mexico brazil argentina chile russia ussr
        ukraine romania bulgaria czechoslovakia yugoslavia slovenia croatia iran pakistan thailand malaysia hawaii""",
    "city": """amsterdam ann arbor athens atlanta austin baltimore barcelona bari basel beijing berkeley berlin bologna bombay
        bonn
        boston boulder bristol brighton brussels budapest cambridge cardiff chicago cleveland copenhagen dallas darmstadt
        delft denver detroit dordrecht dresden dublin edinburgh eindhoven frankfurt geneva genoa glasgow gothenburg
        grenoble groningen haifa hamburg heidelberg helsinki hillsdale holland hong kong houston innsbruck ithaca
        jerusalem karlsruhe kyoto lausanne leeds leuven lisbon lille london los alamitos altos angeles lyon madison madrid
        manchester marseille melbourne menlo park miami milan minneapolis montreal moscow munich murray hill nancy naples
        new york new haven newark nice osaka oslo ottawa oxford palo alto paris philadelphia phoenix pisa pittsburgh
        portland prague princeton providence reading redwood rome rotterdam saarbrücken san diego francisco jose mateo
        santa cruz fe barbara monica seattle seoul stanford stockholm stuttgart sydney tel aviv tokyo toronto toulouse
        trento trondheim turin uppsala urbana utrecht vancouver venice vienna warsaw washington waterloo yorktown heights
        zurich zürich englewood cliffs boca raton berlin-heidelberg norwell norwood monterey pacific grove college park""",
}


def citation_cues() -> dict[str, list[str]]:
    """Words that speak for the fields of a citation, by the field or kind: months, publishers, journals, ...

    Give it, or lists that begin with it, to ``TokenFeatures(lexicons=...)`` or ``SegmentCRF(lexicons=...)``.

    Examples
    --------
    >>> "springer-verlag" in citation_cues()["publisher"]
    True
    """
    return {name: _entries(words) for name, words in _CITATION_CUES.items()}


def _entries(words: str) -> list[str]:
    """Entries are words, or phrases where semicolons part them."""
    return [" ".join(entry.split()) for entry in words.split(";")] if ";" in words else words.split()
