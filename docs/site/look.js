// What is wrong with the layout of the page that is shown: a list of texts.
(async () => {
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    const found = [];
    const shown = document.documentElement.clientWidth;
    const wide = document.scrollingElement.scrollWidth;
    if (wide > shown) found.push(`the page is ${wide} wide, the screen ${shown}`);

    const wish = matchMedia('(prefers-color-scheme: dark)').matches ? 'slate' : 'default';
    const scheme = document.body.dataset.mdColorScheme;
    if (scheme !== wish) found.push(`the scheme is ${scheme}`);

    const article = document.querySelector('article');
    const right = article.getBoundingClientRect().right + 1;
    for (const each of article.querySelectorAll('p, li, h1, h2, h3, h4, dd, dt, table, img')) {
        if (each.getBoundingClientRect().right > right && !each.closest('pre, .headerlink')) {
            found.push(`${each.tagName} is too wide: ${each.textContent.trim().slice(0, 60)}`);
        }
    }

    for (const table of article.querySelectorAll('table:not(.highlighttable)')) {
        const room = table.closest('.md-typeset__scrollwrap') || table.parentElement;
        const over = table.getBoundingClientRect().width - room.clientWidth;
        if (over > 1) found.push(`a table scrolls by ${Math.round(over)}: ${table.textContent.trim().slice(0, 40)}`);
        const texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
        for (let text = texts.nextNode(); text; text = texts.nextNode()) {
            if (!text.parentElement.closest('code')) continue;
            for (const word of text.data.matchAll(/[A-Za-z_]\w*/g)) {
                const range = document.createRange();
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                const lines = new Set(Array.from(range.getClientRects(), one => Math.round(one.top)));
                if (lines.size > 1) found.push(`broken in a table: ${word[0]}`);
            }
        }
    }

    // Contrast by WCAG 2.1, of text that is shown.
    const channels = colour => colour.match(/[\d.]+/g).map(Number);
    const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255)
        .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = element => {
        for (; element; element = element.parentElement) {
            const colour = getComputedStyle(element).backgroundColor;
            const [r, g, b, a = 1] = channels(colour);
            if (a > 0.5) return [r, g, b];
        }
        return [255, 255, 255];
    };
    const pale = new Map();
    for (const each of article.querySelectorAll('p, li, td, th, a:not(.headerlink), code, span')) {
        const own = Array.from(each.childNodes).some(one => one.nodeType === 3 && one.data.trim());
        if (!own || !each.getClientRects().length) continue;
        const style = getComputedStyle(each);
        const [r, g, b, a = 1] = channels(style.color);
        if (style.color.startsWith('color(')) continue;
        const below = ground(each);
        const mixed = [r, g, b].map((c, i) => c * a + below[i] * (1 - a));
        const [high, low] = [luminance(mixed), luminance(below)].sort((x, y) => y - x);
        const ratio = (high + 0.05) / (low + 0.05);
        if (ratio < 3) pale.set(`${each.tagName}.${each.className}`, `${ratio.toFixed(1)}: ${each.textContent.trim().slice(0, 30)}`);
    }
    for (const [what, ratio] of pale) found.push(`too pale: ${what} ${ratio}`);

    const links = Array.from(document.querySelectorAll('a[href]'), one => new URL(one.href));
    for (const link of links) {
        if (link.origin !== location.origin) continue;
        if (link.pathname === location.pathname && link.hash.length > 1) {
            if (!document.getElementById(decodeURIComponent(link.hash.slice(1)))) found.push(`leads nowhere: ${link.hash}`);
        }
    }
    return found;
})()
